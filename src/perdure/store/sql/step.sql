-- name: step.insert
-- Record a step's result.
insert into step (session_uid, restart_number, scope, name, argument_digest, occurrence, result, artifact, error, number, at)
values (:uid, :restart_number, :scope, :name, :argument_digest, :occurrence, :result, :artifact, :error, :number, :now)
on conflict (session_uid, restart_number, scope, name, argument_digest, occurrence) do nothing;

-- name: step.insert_held
-- Record a step's result, of which there cannot be one already.
insert into step (session_uid, restart_number, scope, name, argument_digest, occurrence, result, artifact, error, number, at)
values (:session_uid, :restart_number, :scope, :name, :argument_digest, :occurrence, :result, :artifact, :error, :number,
    :at);

-- name: step.record_held@postgres
-- The hot record of a holder who knows the log's head: guard, event and step in one statement.
with held as (
    update session set cursor = :number, chain = :chain,
        updated_at = case when updated_at <= :stale then :at else updated_at end
    where uid = :session_uid and lease_epoch = :epoch and lease_nonce = :nonce and cursor = :cursor
        and session.chain = :was_chain
        and (select cast(value as bigint) from meta where key = 'compatible_from') <= :known
        and restart_number = :restart_number
        and {same_server}
    returning uid
), logged as (
    insert into event (session_uid, number, kind, actor, at, effect_id, move_id, body, salt, digest, chain)
    select uid, :number, :kind, :actor, :at, :effect_id, :move_id, :body, :salt, :digest, :chain from held
)
insert into step (session_uid, restart_number, scope, name, argument_digest, occurrence, result, artifact, error, number, at)
select uid, :restart_number, :scope, :name, :argument_digest, :occurrence, :result, :artifact, :error, :number, :at
from held
returning {durability};

-- name: step.of_session
-- Everything recorded since a restart, in one read.
select {columns:step} from step where session_uid = :uid and restart_number = :restart_number and number <= :through
order by number limit :limit;

-- name: step.failed
-- The failed steps of a session, in order.
select {columns:step} from step where session_uid = :uid and error is not null order by number limit :limit;

-- name: step.newest
-- The number of a session's newest step; 0 if it has none.
select coalesce(max(number), 0) from step where session_uid = :uid;
