-- name: principal.insert
-- Register a person or a program.
insert into principal (uid, name, kind, roles, added_by, added_at, version)
values (:uid, :name, :kind, :roles, :by, :now, 1);

-- name: principal.update
-- Change the kind and the roles of a principal.
update principal set kind = :kind, roles = :roles, version = version + 1 where uid = :uid and removed_at is null;

-- name: principal.remove
-- Forget a principal; its votes do not count any more.
update principal set removed_at = :now, version = version + 1 where uid = :uid and removed_at is null;

-- name: principal.by_name
-- The principal of a name.
select {columns:principal} from principal where name = :name and removed_at is null;

-- name: principal.by_login
-- The principal that an authenticated identity belongs to.
select {columns:principal} from principal
where removed_at is null and uid in (
    select principal_uid from principal_login where login = :login and removed_at is null
);

-- name: principal.ever_with_login
-- Every principal that has or had a login: what it asked for with it stays its own.
select distinct principal_uid from principal_login where login = :login order by principal_uid limit :limit;

-- name: principal.list
-- The principals, by name.
select {columns:principal} from principal where removed_at is null order by name limit :limit;

-- name: principal.count
-- How many principals there are.
select count(*) from principal where removed_at is null;

-- name: principal.add_login
-- Give a principal one more login.
insert into principal_login (principal_uid, login, added_by, added_at) values (:uid, :login, :by, :now);

-- name: principal.remove_login
-- Take a login from a principal.
update principal_login set removed_at = :now where principal_uid = :uid and login = :login and removed_at is null;

-- name: principal.logins
-- The logins of a principal.
select {columns:principal_login} from principal_login
where principal_uid = :uid and removed_at is null order by login limit :limit;
