-- name: request.get
-- One request by its caller and its key.
select {columns:request} from request where caller = :caller and idempotency_key = :key;

-- name: request.insert
-- Keep a request; another one under the same key keeps its row.
insert into request (caller, idempotency_key, operation, digest, ids, state, move_id, at, holder, held_until)
values (:caller, :key, :operation, :digest, :ids, :state, :move_id, :now, :holder, :held_until)
on conflict (caller, idempotency_key) do nothing;

-- name: request.finish
-- A request is done, unless another process carries it out by now.
update request set state = 'done', ids = :ids, holder = null, held_until = null
where caller = :caller and idempotency_key = :key and state = 'begun' and (holder is null or holder = :holder);

-- name: request.hold
-- Carry out a request that was begun, or continue to; nothing if another process holds it.
update request set holder = :holder, held_until = :until
where caller = :caller and idempotency_key = :key and state = 'begun'
    and (holder is null or holder = :holder or held_until <= :now);

-- name: request.release
-- A process stops carrying out a request that it did not complete.
update request set holder = null, held_until = null
where caller = :caller and idempotency_key = :key and state = 'begun' and holder = :holder;

-- name: request.drop
-- Forget a request whose answer has arrived.
delete from request where caller = :caller and idempotency_key = :key;

-- name: request.forget
-- Forget requests that were carried out before a time.
delete from request where (caller, idempotency_key) in (
    select caller, idempotency_key from request where at < :before order by at limit :limit
);

-- name: request.listing
-- Requests of all callers, the oldest first.
select {columns:request} from request order by at, caller, idempotency_key limit :limit;
