-- name: token.insert
-- Store a token; its secret is not stored.
insert into token (id, digest, principal_uid, label, scopes, created_by, created_at, expires_at)
values (:id, :digest, :principal_uid, :label, :scopes, :by, :now, :expires_at);

-- name: token.get
-- One token.
select {columns:token} from token where id = :id;

-- name: token.lock
-- One token, locked.
select {columns:token} from token where id = :id {lock};

-- name: token.starting_with
-- Tokens whose id begins with a prefix.
select {columns:token} from token where id >= :first and id < :beyond order by id limit :limit;

-- name: token.list
-- The tokens, the newest first.
select {columns:token} from token order by created_at desc, id limit :limit;

-- name: token.revoke
-- Revoke a token.
update token set revoked_at = :now, revoked_by = :by where id = :id and revoked_at is null;

-- name: token.rotate
-- Replace a token; it is valid until the given time.
update token set rotated_to = :rotated_to, expires_at = :expires_at where id = :id and rotated_to is null;

-- name: token.use
-- Note when a token was used.
update token set used_at = :now where id = :id and coalesce(used_at, 0) < :now;

-- name: token.count
-- How many tokens can still be used.
select count(*) from token where revoked_at is null and (expires_at is null or expires_at > :now);

-- name: token.principal
-- The principal of a token.
select {columns:principal} from principal where uid = :uid and removed_at is null;

-- name: token.ended
-- Tokens that were revoked or expired before a time.
select {columns:token} from token where revoked_at < :before or expires_at < :before order by id limit :limit;

-- name: token.forget
-- Forget a token that has ended.
delete from token where id = :id;
