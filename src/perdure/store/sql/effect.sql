-- name: effect.insert
-- Plan an effect.
insert into effect (
    session_uid, id, task_id, position, generation, tool, replay, targets, intent, intent_digest, idempotency_key,
    state, reference, result, artifact, error, approval_id, policy_version, rule, exemption_id, supersedes,
    planned_at, settled_at, number, settled_number, leases, inflight, key_ttl, retry, reach
) values (
    :session_uid, :id, :task_id, :position, :generation, :tool, :replay, :targets, :intent, :intent_digest,
    :idempotency_key, :state, :reference, :result, :artifact, :error, :approval_id, :policy_version, :rule, :exemption_id,
    :supersedes, :now, :settled_at, :number, :settled_number, :leases, :inflight, :key_ttl, :retry, :reach
);

-- name: effect.begin
-- Plan an effect that is dispatched in the same statement, without approval, leases or predecessor.
insert into effect (
    session_uid, id, task_id, position, generation, tool, replay, targets, intent, intent_digest, idempotency_key,
    state, policy_version, rule, planned_at, number, inflight, key_ttl, retry, reach
) values (
    :session_uid, :id, :task_id, :position, :generation, :tool, :replay, :targets, :intent, :intent_digest,
    :idempotency_key, 'dispatched', :policy_version, :rule, :at, :number, :inflight, :key_ttl, :retry, :reach
);

-- name: effect.dispatch_held@postgres
-- The hot dispatch of a new effect: guard, event, effect and attempt in one statement.
with held as (
    update session set cursor = :number, chain = :chain,
        updated_at = case when updated_at <= :stale then :at else updated_at end
    where uid = :session_uid and lease_epoch = :epoch and lease_nonce = :nonce and cursor = :cursor
        and session.chain = :was_chain
        and (select cast(value as bigint) from meta where key = 'compatible_from') <= :known
        and (select fence from policy_fence where one = 1) = :fence
        and {same_server}
    returning uid
), logged as (
    insert into event (session_uid, number, kind, actor, at, effect_id, move_id, body, salt, digest, chain)
    select uid, :number, :kind, :actor, :at, :effect_id, :move_id, :body, :salt, :digest, :chain from held
), planned as (
    insert into effect (
        session_uid, id, task_id, position, generation, tool, replay, targets, intent, intent_digest, idempotency_key,
        state, policy_version, rule, planned_at, number, inflight, key_ttl, retry, reach
    )
    select uid, :id, cast(:task_id as text), :position, :generation, :tool, :replay, :targets, :intent, :intent_digest,
        :idempotency_key, 'dispatched', :policy_version, :rule, :at, :number, :inflight, :key_ttl, :retry, :reach
    from held
)
insert into attempt (session_uid, effect_id, number, worker, epoch, process, sandbox, dispatched_at, deadline_at, rule,
    policy_version)
select uid, :effect_id, 1, :worker, :epoch, :process, :sandbox, :at, :deadline_at, :rule,
    (select cast(version as text) from policy_fence where one = 1 and fence = :fence)
from held
returning {durability};

-- name: effect.acknowledge
-- Acknowledge the first attempt of an effect, by the holder that dispatched it.
update effect set state = 'acknowledged', result = :result, artifact = :artifact, reference = :reference,
    settled_at = :at, settled_number = :number
where session_uid = :session_uid and id = :effect_id;

-- name: effect.settle_held@postgres
-- The hot settle of a first attempt: guard, event, attempt and effect in one statement.
with held as (
    update session set cursor = :number, chain = :chain,
        updated_at = case when updated_at <= :stale then :at else updated_at end
    where uid = :session_uid and lease_epoch = :epoch and lease_nonce = :nonce and cursor = :cursor
        and session.chain = :was_chain
        and (select cast(value as bigint) from meta where key = 'compatible_from') <= :known and exists (
            select 1 from attempt
            where attempt.session_uid = :session_uid and effect_id = :effect_id and number = 1 and outcome is null
        )
        and {same_server}
    returning uid
), logged as (
    insert into event (session_uid, number, kind, actor, at, effect_id, move_id, body, salt, digest, chain)
    select uid, :number, :kind, :actor, :at, :effect_id, :move_id, :body, :salt, :digest, :chain from held
), ended as (
    update attempt set outcome = 'acknowledged', ended_at = coalesce(ended_at, :at), settled_at = :at
    from held
    where session_uid = held.uid and effect_id = :effect_id and number = 1
)
update effect set state = 'acknowledged', result = :result, artifact = :artifact, reference = :reference,
    settled_at = :at, settled_number = :number
from held
where session_uid = held.uid and id = :effect_id
returning {durability};

-- name: effect.dispatch
-- Dispatch an effect; an earlier doubt or verdict no longer counts.
update effect set state = 'dispatched', doubted_at = null, doubt = null, verdict = null, verdict_by = null,
    verdict_because = null, policy_version = :policy_version, rule = :rule, exemption_id = :exemption_id
where session_uid = :uid and id = :id;

-- name: effect.settle
-- Settle an effect, or plan it again.
update effect set state = :state, result = :result, artifact = :artifact, error = :error, reference = :reference,
    settled_at = :settled_at, settled_number = :settled_number, verdict = :verdict, verdict_by = :verdict_by,
    verdict_because = :verdict_because
where session_uid = :uid and id = :id;

-- name: effect.refer
-- Record a reference in the outside system before the outcome is known.
update effect set reference = :reference where session_uid = :uid and id = :id;

-- name: effect.doubt
-- Mark an effect as in doubt.
update effect set doubted_at = :now, doubt = :doubt where session_uid = :uid and id = :id;

-- name: effect.gate
-- Bind a planned effect to an approval.
update effect set approval_id = :approval_id where session_uid = :uid and id = :id;

-- name: effect.get
-- One effect of a session.
select {columns:effect} from effect where session_uid = :uid and id = :id;

-- name: effect.by_id
-- One effect by its id or a prefix of it, of one session or of any.
select {columns:effect} from effect where id >= :prefix and id < :beyond
    and (cast(:uid as text) is null or session_uid = :uid)
order by id, session_uid limit :limit;

-- name: effect.of_session
-- Everything a session planned between two events, in order.
select {columns:effect} from effect where session_uid = :uid and number > :after and number <= :through
order by number limit :limit;

-- name: effect.successor
-- The effect that replaces one that was undone.
select {columns:effect} from effect where session_uid = :uid and supersedes = :id;

-- name: effect.unsettled
-- Effects of a session that are not settled; `+` keeps the planner from walking the index of all effects by number.
select {columns:effect} from effect where session_uid = :uid and state in ('planned', 'dispatched')
order by +number limit :limit;

-- name: effect.left
-- Effects of a session that are not settled, or whose undo was requested, in no order.
select {columns:effect} from effect where session_uid = :uid and state in ('planned', 'dispatched')
union all
select {columns:effect} from effect where session_uid = :uid and undo_requested_at is not null
limit :limit;

-- name: effect.ask_undo
-- Request the undo of an effect.
update effect set undo_requested_at = :now, undo_by = :by, undo_because = :because
where session_uid = :uid and id = :id;

-- name: effect.end_undo
-- End a request to undo: it was undone, or could not be.
update effect set undo_requested_at = null where session_uid = :uid and id = :id;

-- name: effect.undos
-- The undos of an effect, acknowledged or not, in order.
select {columns:effect} from effect where session_uid = :uid and position = :position order by generation limit :limit;

-- name: effect.judge
-- Record which rule of which policy refuses a planned effect.
update effect set rule = :rule, policy_version = :policy_version where session_uid = :uid and id = :id;

-- name: effect.presume
-- Mark an effect as possibly dispatched in the time that a restore lost.
update effect set restore_epoch = :epoch where session_uid = :uid and id = :id;

-- name: effect.list
-- Effects by an operator's filters, the newest first. `target`: one target begins with this and is below `beyond`.
select {columns:effect}, (select queue from session where session.uid = effect.session_uid),
    (select repository_id from session where session.uid = effect.session_uid)
from effect
where (cast(:uid as text) is null or session_uid = :uid)
    and (cast(:state as text) is null or state = :state)
    and (cast(:tool as text) is null or tool = :tool)
    and (cast(:reach as text) is null or reach = :reach)
    and (cast(:in_doubt as text) is null or (doubted_at is not null and state = 'dispatched'))
    and (cast(:target as text) is null or exists (
        select 1 from effect_target
        where effect_target.session_uid = effect.session_uid and effect_id = effect.id
            and target >= :target and target < :beyond
    ))
    and planned_at >= :since and planned_at <= :before
    and (planned_at < :before or id < :before_id)
order by planned_at desc, id desc limit :limit;

-- name: effect.of_target
-- Effects with exactly one target, by the same filters, the newest first.
select {columns:effect}, (select queue from session where session.uid = effect.session_uid),
    (select repository_id from session where session.uid = effect.session_uid)
from effect
where (session_uid, id) in (
        select session_uid, effect_id from effect_target
        where target = :target and at >= :since and at <= :before and (at < :before or effect_id < :before_id)
    )
    and (cast(:uid as text) is null or session_uid = :uid)
    and (cast(:state as text) is null or state = :state)
    and (cast(:tool as text) is null or tool = :tool)
    and (cast(:reach as text) is null or reach = :reach)
    and (cast(:in_doubt as text) is null or (doubted_at is not null and state = 'dispatched'))
order by planned_at desc, id desc limit :limit;
