-- name: access.insert
-- Record that something sensitive was read; the same id again changes nothing.
insert into access (id, at, identity, action, session_uid, subject, detail)
values (:id, :now, :identity, :action, :session_uid, :subject, :detail) on conflict do nothing;

-- name: access.forget
-- Forget the oldest reads before a time, so many at once.
delete from access where id in (select id from access where at < :before order by at, id limit :limit);

-- name: access.count
-- How many reads are older than a time.
select count(*) from access where at < :before;
