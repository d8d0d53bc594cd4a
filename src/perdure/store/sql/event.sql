-- name: event.insert
-- Append one event to a session's log.
insert into event (session_uid, number, kind, actor, at, effect_id, move_id, body, salt, digest, chain)
values (:session_uid, :number, :kind, :actor, :at, :effect_id, :move_id, :body, :salt, :digest, :chain);


-- name: event.append_held@postgres
-- The hot append of a holder who knows the log's head: the guard and both writes in one statement.
with held as (
    update session set cursor = :number, chain = :chain,
        updated_at = case when updated_at <= :stale then :at else updated_at end
    where uid = :session_uid and lease_epoch = :epoch and lease_nonce = :nonce and cursor = :cursor
        and session.chain = :was_chain
        and (select cast(value as bigint) from meta where key = 'compatible_from') <= :known
        and {same_server}
    returning uid
)
insert into event (session_uid, number, kind, actor, at, effect_id, move_id, body, salt, digest, chain)
select uid, :number, :kind, :actor, :at, :effect_id, :move_id, :body, :salt, :digest, :chain from held
returning {durability};

-- name: event.of_move
-- The event of a move, if the move was committed.
select number from event where session_uid = :uid and number = :number and move_id = :move_id;

-- name: event.chain
-- The chain value of one event.
select chain from event where session_uid = :uid and number = :number;

-- name: event.after
-- A session's events after a number, in order.
select {columns:event} from event where session_uid = :uid and number > :after order by number limit :limit;

-- name: event.last
-- A session's newest events, the newest first.
select {columns:event} from event where session_uid = :uid and number <= :through order by number desc limit :limit;

-- name: event.messages
-- A session's lines of the transcript from one number to another, in order.
select {columns:event} from event
where session_uid = :uid and kind = 'message' and number >= :first and number <= :through
order by number limit :limit;

-- name: event.newest_of
-- The newest event of one kind, up to a number.
select number from event where session_uid = :uid and kind = :kind and number <= :through
order by number desc limit 1;

-- name: event.of_kind
-- The events of one kind, up to a number, in order.
select {columns:event} from event where session_uid = :uid and kind = :kind and number <= :through
order by number limit :limit;

-- name: event.notes
-- The notes of a session, among them those of its imports, in order.
select {columns:event} from event where session_uid = :uid and kind = 'note' order by number limit :limit;

-- name: event.recoveries
-- What recovery found out about one effect, with the answers of its probe; the newest first.
select {columns:event} from event {index:event_of_recovery}
where session_uid = :uid and effect_id = :effect_id and kind = 'effect.recovered'
order by number desc limit :limit;

-- name: event.erase
-- Erase the body of an event; its digest and the chain stay. A retry names only numbers, and without them a run would
-- not know which records it has replaced. What was erased, and why, stays too: it vouches for the empty bodies.
update event set body = null, salt = null
where session_uid = :uid and number = :number and body is not null and kind not in ('session.retried', 'event.erased');
