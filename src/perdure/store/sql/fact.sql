-- name: fact.insert
-- Insert a fact; a key that exists already changes nothing.
insert into fact (scope, key, value, version, verify, session_uid, updated_by, updated_at, verified_at, stale_after)
values (:scope, :key, :value, 1, :verify, :uid, :by, :now, :now, :stale_after)
on conflict (scope, key) do nothing;

-- name: fact.update
-- Replace the version of a fact that was read.
update fact set value = :value, version = :version, verify = :verify, session_uid = :uid, updated_by = :by,
    updated_at = :now, verified_at = :now, stale_after = :stale_after
where scope = :scope and key = :key and version = :was;

-- name: fact.verify
-- Record that a fact was verified.
update fact set verified_at = :now where scope = :scope and key = :key and version = :version;

-- name: fact.delete
-- Delete the version of a fact that was read.
delete from fact where scope = :scope and key = :key and version = :version;

-- name: fact.get
-- One fact.
select {columns:fact} from fact where scope = :scope and key = :key;

-- name: fact.orders
-- The standing orders for every agent, and those of one repository.
select {columns:fact} from fact where scope in (:everywhere, :scope) order by scope, key limit :limit;

-- name: fact.list
-- Facts of a scope, or all.
select {columns:fact} from fact where (cast(:scope as text) is null or scope = :scope)
order by scope, key limit :limit;

-- name: fact.page
-- Facts of a scope or all, after one of them; with the queue and the repository of the session, if the scope is one.
select {columns:fact},
    (select queue from session
        where session.uid = case when substr(fact.scope, 1, 8) = 'session:' then substr(fact.scope, 9) end),
    (select repository_id from session
        where session.uid = case when substr(fact.scope, 1, 8) = 'session:' then substr(fact.scope, 9) end)
from fact
where (scope, key) > (:scope, :key) and (cast(:only as text) is null or scope = :only)
order by scope, key limit :limit;
