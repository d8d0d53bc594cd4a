-- name: fact.insert
-- Learn something new; a key that is known changes nothing.
insert into fact (scope, key, value, version, verify, session_uid, updated_by, updated_at, verified_at, stale_after)
values (:scope, :key, :value, 1, :verify, :uid, :by, :now, :now, :stale_after)
on conflict (scope, key) do nothing;

-- name: fact.update
-- Learn something else, as of the version that was read.
update fact set value = :value, version = :version, verify = :verify, session_uid = :uid, updated_by = :by,
    updated_at = :now, verified_at = :now, stale_after = :stale_after
where scope = :scope and key = :key and version = :was;

-- name: fact.verify
-- Note that it still holds.
update fact set verified_at = :now where scope = :scope and key = :key and version = :version;

-- name: fact.delete
-- Forget it, as of the version that was read.
delete from fact where scope = :scope and key = :key and version = :version;

-- name: fact.get
-- One fact.
select {columns:fact} from fact where scope = :scope and key = :key;

-- name: fact.list
-- What is known in a scope.
select {columns:fact} from fact where (cast(:scope as text) is null or scope = :scope)
order by scope, key limit :limit;
