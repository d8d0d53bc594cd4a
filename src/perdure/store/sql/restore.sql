-- name: restore.insert
-- Record a restore.
insert into restore (epoch, began_at, rewound_to, cause, detail, timeline)
values (:epoch, :now, :rewound_to, :cause, :detail, :timeline);

-- name: restore.newest
-- The newest restore.
select {columns:restore} from restore order by epoch desc limit 1;

-- name: restore.list
-- Every restore, the newest first.
select {columns:restore} from restore order by epoch desc limit :limit;

-- name: restore.over
-- The newest restore that is not released, of those that a session or one of its ancestors was alive at and in which it
-- may have lost something. The session of a tick that is created again may have been alive since its tick.
with recursive line (parent_uid, created_at) as (
    select parent_uid, coalesce(scheduled_at, created_at) from session where uid = :uid
    union all
    select session.parent_uid, coalesce(session.scheduled_at, session.created_at)
    from session join line on session.uid = line.parent_uid
)
select {columns:restore} from restore where released_at is null and began_at >= (select min(created_at) from line)
    and not exists (
        select 1 from restore_exempt where restore_exempt.epoch = restore.epoch and restore_exempt.session_uid = :uid
    )
order by epoch desc limit 1;

-- name: restore.release
-- Release restores: a person has examined what was lost.
update restore set released_at = :now, released_by = :by, released_because = :because where released_at is null;

-- name: restore.rewound_to
-- The newest time that is recorded in the store.
select coalesce(max(updated_at), 0) from session;

-- name: restore.void_leases
-- Make every lease of an earlier epoch void; its time still has to run out.
update session set lease_epoch = :epoch where lease_epoch < :epoch and status not in ('done', 'failed', 'cancelled');

-- name: restore.timeline@postgres
-- Which history of which server this is; a failover or a point-in-time recovery begins another one.
select (select system_identifier from pg_control_system()) || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8);

-- name: restore.since
-- The restores that were begun after an epoch, the newest first.
select {columns:restore} from restore where epoch > :epoch order by epoch desc limit :limit;

-- name: restore.exempt
-- Exempt a session from a restore: it lost nothing.
insert into restore_exempt (epoch, session_uid) values (:epoch, :uid) on conflict (epoch, session_uid) do nothing;

-- name: restore.exempt_child
-- Exempt a new child from the restores that its parent is exempt from.
insert into restore_exempt (epoch, session_uid) select epoch, :uid from restore_exempt where session_uid = :parent_uid
on conflict (epoch, session_uid) do nothing;

-- name: restore.conclude
-- Conclude a restore as a failover that lost nothing.
update restore set released_at = :now, released_by = :by, released_because = :because
where released_at is null and timeline is not null;
