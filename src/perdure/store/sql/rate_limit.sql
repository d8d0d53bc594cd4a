-- name: rate_limit.get
-- One limit.
select {columns:rate_limit} from rate_limit where name = :name;

-- name: rate_limit.lock
-- Lock and read a limit until the transaction ends.
select {columns:rate_limit} from rate_limit where name = :name {lock};

-- name: rate_limit.list
-- Every limit, by name.
select {columns:rate_limit} from rate_limit order by name limit :limit;

-- name: rate_limit.insert
-- Create the row of a limit that limits nothing yet.
insert into rate_limit (name, updated_by, updated_at) values (:name, :by, :now) on conflict (name) do nothing;

-- name: rate_limit.update
-- Change a limit, and forget a delay that the provider asked for.
update rate_limit set requests = :requests, tokens = :tokens, requests_at = :requests_at, tokens_at = :tokens_at,
    blocked_until = null, updated_by = :by, updated_at = :now
where name = :name;

-- name: rate_limit.use
-- Note what is used up.
update rate_limit set requests_at = :requests_at, tokens_at = :tokens_at where name = :name;

-- name: rate_limit.block
-- Let all callers wait until a time; a longer wait stays.
update rate_limit set blocked_until = {greatest}(coalesce(blocked_until, 0), :until) where name = :name;

-- name: rate_limit.delete
-- Remove a limit.
delete from rate_limit where name = :name;
