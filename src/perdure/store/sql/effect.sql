-- name: effect.insert
-- Write down an intent.
insert into effect (
    session_uid, id, task_id, position, generation, tool, replay, targets, intent, intent_digest, idempotency_key,
    state, result, artifact, error, approval_id, policy_version, rule, supersedes, planned_at, settled_at, number,
    settled_number
) values (
    :session_uid, :id, :task_id, :position, :generation, :tool, :replay, :targets, :intent, :intent_digest,
    :idempotency_key, :state, :result, :artifact, :error, :approval_id, :policy_version, :rule, :supersedes, :now,
    :settled_at, :number, :settled_number
);

-- name: effect.dispatch
-- The action may be under way; an earlier doubt or verdict is spent.
update effect set state = 'dispatched', doubted_at = null, doubt = null, verdict = null, verdict_by = null,
    verdict_because = null
where session_uid = :uid and id = :id;

-- name: effect.settle
-- What came of it.
update effect set state = :state, result = :result, artifact = :artifact, error = :error, reference = :reference,
    settled_at = :settled_at, settled_number = :settled_number, verdict = :verdict, verdict_by = :verdict_by,
    verdict_because = :verdict_because
where session_uid = :uid and id = :id;

-- name: effect.doubt
-- Nobody can say what came of it.
update effect set doubted_at = :now, doubt = :doubt where session_uid = :uid and id = :id;

-- name: effect.gate
-- A planned effect is asked about after all.
update effect set approval_id = :approval_id where session_uid = :uid and id = :id;

-- name: effect.get
-- One effect of a session.
select {columns:effect} from effect where session_uid = :uid and id = :id;

-- name: effect.by_id
-- One effect by its id, or by a beginning of it.
select {columns:effect} from effect where id >= :prefix and id < :beyond order by id, session_uid limit :limit;

-- name: effect.of_session
-- Everything a session planned between two events, in order.
select {columns:effect} from effect where session_uid = :uid and number > :after and number <= :through
order by number limit :limit;

-- name: effect.successor
-- The effect that took the place of one that was undone.
select {columns:effect} from effect where session_uid = :uid and supersedes = :id;

-- name: effect.unsettled
-- What a session planned and has not settled.
select {columns:effect} from effect where session_uid = :uid and state in ('planned', 'dispatched')
order by number limit :limit;

-- name: effect.list
-- Effects by what an operator asks for, the newest first.
select {columns:effect} from effect
where (cast(:uid as text) is null or session_uid = :uid)
    and (cast(:state as text) is null or state = :state)
    and (cast(:tool as text) is null or tool = :tool)
    and (cast(:in_doubt as text) is null or (doubted_at is not null and state = 'dispatched'))
    and planned_at >= :since
    and (planned_at < :before or (planned_at = :before and id < :before_id))
order by planned_at desc, id desc limit :limit;

