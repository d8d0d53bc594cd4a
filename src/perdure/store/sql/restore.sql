-- name: restore.insert
-- The store was put back to an earlier time.
insert into restore (epoch, began_at, rewound_to, cause, detail) values (:epoch, :now, :rewound_to, :cause, :detail);

-- name: restore.newest
-- The newest restore.
select {columns:restore} from restore order by epoch desc limit 1;

-- name: restore.list
-- Every restore, the newest first.
select {columns:restore} from restore order by epoch desc limit :limit;

-- name: restore.over
-- The newest restore that is not released, of those that a session or one of its ancestors was alive at.
with recursive line (parent_uid, created_at) as (
    select parent_uid, created_at from session where uid = :uid
    union all
    select session.parent_uid, session.created_at from session join line on session.uid = line.parent_uid
)
select {columns:restore} from restore where released_at is null and began_at >= (select min(created_at) from line)
order by epoch desc limit 1;

-- name: restore.release
-- What was lost has been looked at.
update restore set released_at = :now, released_by = :by, released_because = :because where released_at is null;

-- name: restore.rewound_to
-- The newest moment that the store knows.
select coalesce(max(updated_at), 0) from session;

-- name: restore.void_leases
-- No holder of before moves anything any more; its time still has to run out.
update session set lease_epoch = :epoch where lease_epoch < :epoch and status not in ('done', 'failed', 'cancelled');

-- name: restore.timeline@postgres
-- Which history of which server this is; a failover or a point-in-time recovery begins another one.
select (select system_identifier from pg_control_system()) || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8);
