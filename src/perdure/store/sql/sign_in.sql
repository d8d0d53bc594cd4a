-- name: sign_in.insert
-- Begin a sign-in to the console.
insert into sign_in (id, identity, began_at, expires_at) values (:id, :identity, :now, :expires_at)
on conflict do nothing;

-- name: sign_in.get
-- One sign-in.
select {columns:sign_in} from sign_in where id = :id;

-- name: sign_in.delete
-- End a sign-in.
delete from sign_in where id = :id;

-- name: sign_in.forget
-- Forget sign-ins that have expired.
delete from sign_in where id in (select id from sign_in where expires_at <= :now order by expires_at limit :limit);
