-- name: attempt.insert
-- One dispatch.
insert into attempt (session_uid, effect_id, number, worker, epoch, process, sandbox, dispatched_at, deadline_at,
    outcome, error, ended_at, settled_at, ended_boot)
values (:uid, :effect_id, :number, :worker, :epoch, :process, :sandbox, :now, :deadline_at, :outcome, :error,
    :ended_at, :settled_at, :ended_boot);

-- name: attempt.begin
-- The first dispatch of an effect.
insert into attempt (session_uid, effect_id, number, worker, epoch, process, sandbox, dispatched_at, deadline_at)
values (:session_uid, :effect_id, 1, :worker, :epoch, :process, :sandbox, :at, :deadline_at);

-- name: attempt.acknowledge
-- The first dispatch was acknowledged by the one who made it.
update attempt set outcome = 'acknowledged', ended_at = coalesce(ended_at, :at), settled_at = :at
where session_uid = :session_uid and effect_id = :effect_id and number = 1;

-- name: attempt.settle
-- What came of a dispatch.
update attempt set outcome = :outcome, error = :error, ended_at = coalesce(ended_at, :ended_at), settled_at = :now,
    ended_boot = case when ended_at is null then :ended_boot else ended_boot end
where session_uid = :uid and effect_id = :effect_id and number = :number;

-- name: attempt.rule_absent
-- It is held not to have happened; when its act ended stays as it was.
update attempt set outcome = 'absent', settled_at = :now
where session_uid = :uid and effect_id = :effect_id and number = :number;

-- name: attempt.overrun
-- It has not answered in time, and goes on.
update attempt set outcome = 'unknown', error = :error
where session_uid = :uid and effect_id = :effect_id and number = :number;

-- name: attempt.end
-- Its act is known to have ended, and nothing else is known.
update attempt set ended_at = :now, ended_boot = :ended_boot
where session_uid = :uid and effect_id = :effect_id and number = :number and ended_at is null;

-- name: attempt.of_effect
-- Every dispatch of an effect, in order.
select {columns:attempt} from attempt where session_uid = :uid and effect_id = :effect_id order by number limit :limit;
