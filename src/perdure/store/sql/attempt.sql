-- name: attempt.insert
-- Insert an attempt. Without the fence of the active policy there is no version to write, and the move is refused.
insert into attempt (session_uid, effect_id, number, worker, epoch, process, sandbox, dispatched_at, deadline_at,
    outcome, error, ended_at, settled_at, ended_boot, rule, policy_version)
values (:uid, :effect_id, :number, :worker, :epoch, :process, :sandbox, :now, :deadline_at, :outcome, :error,
    :ended_at, :settled_at, :ended_boot, :rule,
    (select cast(version as text) from policy_fence where one = 1 and fence = :fence));

-- name: attempt.keep
-- Insert an attempt that is over, or that may have been made, with the policy of that time: it cannot be refused now.
insert into attempt (session_uid, effect_id, number, worker, epoch, process, sandbox, dispatched_at, deadline_at,
    outcome, error, ended_at, settled_at, ended_boot, rule, policy_version)
values (:uid, :effect_id, :number, :worker, :epoch, :process, :sandbox, :now, :deadline_at, :outcome, :error,
    :ended_at, :settled_at, :ended_boot, :rule, :policy_version);

-- name: attempt.begin
-- Insert the first attempt of an effect. Without the fence of the active policy the move is refused.
insert into attempt (session_uid, effect_id, number, worker, epoch, process, sandbox, dispatched_at, deadline_at, rule,
    policy_version)
values (:session_uid, :effect_id, 1, :worker, :epoch, :process, :sandbox, :at, :deadline_at, :rule,
    (select cast(version as text) from policy_fence where one = 1 and fence = :fence));

-- name: attempt.acknowledge
-- Acknowledge the first attempt, by the holder that dispatched it.
update attempt set outcome = 'acknowledged', ended_at = coalesce(ended_at, :at), settled_at = :at
where session_uid = :session_uid and effect_id = :effect_id and number = 1;

-- name: attempt.settle
-- Record the outcome of an attempt.
update attempt set outcome = :outcome, error = :error, ended_at = coalesce(ended_at, :ended_at), settled_at = :now,
    ended_boot = case when ended_at is null then :ended_boot else ended_boot end
where session_uid = :uid and effect_id = :effect_id and number = :number;

-- name: attempt.rule_absent
-- Mark an attempt as absent; the time when it ended is kept.
update attempt set outcome = 'absent', settled_at = :now
where session_uid = :uid and effect_id = :effect_id and number = :number;

-- name: attempt.overrun
-- Mark an attempt as unknown and still running: it exceeded its time limit.
update attempt set outcome = 'unknown', error = :error
where session_uid = :uid and effect_id = :effect_id and number = :number;

-- name: attempt.end
-- Record that the process of an attempt has ended; the outcome is unknown.
update attempt set ended_at = :now, ended_boot = :ended_boot
where session_uid = :uid and effect_id = :effect_id and number = :number and ended_at is null;

-- name: attempt.report
-- Record that the tool of an attempt is still running, and what it reported.
update attempt set heartbeat_at = :now, progress = coalesce(:progress, progress)
where session_uid = :uid and effect_id = :effect_id and number = :number and outcome is null;

-- name: attempt.of_effect
-- Every attempt of an effect, in order.
select {columns:attempt} from attempt where session_uid = :uid and effect_id = :effect_id order by number limit :limit;
