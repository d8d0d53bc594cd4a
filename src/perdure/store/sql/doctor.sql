-- name: doctor.workers
-- Workers, by columns that the first schema had: a store is read before it is migrated.
select id, host, boot_id, pid, start_token, schema_from, schema_to, programs, started_at, seen_at from worker
order by seen_at desc, id limit :limit;

-- name: doctor.unpriced
-- Models that were used since a day, with the sum of what they cost.
select model from model_usage where day >= :since and model <> ''
group by model having sum(cost_micros) = 0 and sum(tokens_in + tokens_out) > 0 order by model limit :limit;

-- name: doctor.holders
-- Who holds a lease that has not run out, by columns that the first schema had.
select distinct lease_holder from session where status = 'running' and lease_until >= :now limit :limit;

-- name: doctor.in_doubt
-- How many effects are in doubt and wait for a person's verdict.
select count(*) from effect where doubted_at is not null and state = 'dispatched';

-- name: doctor.undecided
-- How many decisions have no outcome yet.
select count(*) from decision where outcome is null;

-- name: doctor.stale
-- How many sessions are marked running although their lease is over.
select count(*) from session where status = 'running' and lease_until < :now;

-- name: doctor.quarantined
-- Sessions that wait for a person because their workers crashed.
select id from session where status = 'waiting' and sealed_at is null and uid in (
    select session_uid from wait where kind = 'quarantine' and resolved_at is null
)
order by id limit :limit;

-- name: doctor.overdue
-- Sessions that wait for a time that has passed.
select id from session where status = 'waiting' and sealed_at is null and uid in (
    select session_uid from wait where resolved_at is null and due_at is not null and due_at < :before
)
order by id limit :limit;

-- name: doctor.session_uids
-- Every session, a page at a time.
select uid from session where uid > :after order by uid limit :limit;

-- name: doctor.durability@sqlite
-- The durability that this connection has.
select (select journal_mode from pragma_journal_mode), (select synchronous from pragma_synchronous);

-- name: doctor.damage@sqlite
-- The first problems of the database file; `ok` if there are none.
pragma quick_check(5);

-- name: doctor.server@postgres
-- The server, and the durability that this connection has.
select current_setting('server_version'), current_database(), pg_database_size(current_database()),
    current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),
    current_setting('synchronous_standby_names'), current_setting('archive_mode'),
    pg_is_in_recovery(), (select timeline_id from pg_control_checkpoint()),
    cast(current_setting('max_connections') as bigint) - cast(current_setting('superuser_reserved_connections') as bigint),
    (select count(*) from pg_stat_activity where backend_type = 'client backend');

-- name: doctor.standbys@postgres
-- The standbys that are connected. A role without pg_monitor sees that there are some, and not how they replicate.
select coalesce(application_name, ''), coalesce(sync_state, 'unknown') from pg_stat_replication
where state is distinct from 'backup' and pid not in (
    select active_pid from pg_replication_slots where slot_type = 'logical' and active_pid is not null
)
order by 1, 2 limit :limit;

-- name: doctor.absent_standbys@postgres
-- Standbys that have a place reserved and are not connected.
select slot_name from pg_replication_slots where slot_type = 'physical' and not active order by 1 limit :limit;

-- name: doctor.clients@postgres
-- Who has this database open, by machine.
select coalesce(host(client_addr), 'local socket'), count(*) from pg_stat_activity
where datname = current_database() and application_name = 'perdure' and pid <> pg_backend_pid()
group by 1 order by 1 limit :limit;

-- name: doctor.commit@postgres
-- A commit that leaves nothing but a mark in the server's log: how long one takes.
select pg_logical_emit_message(true, 'perdure', 'doctor');

-- name: doctor.login@postgres
-- Who this connection is: its role, whether it is a superuser, and whether it acts as the owner of the tables.
select current_user, (select rolsuper from pg_roles where rolname = current_user),
    pg_has_role((select relowner from pg_class where oid = to_regclass('session')), 'usage');

-- name: doctor.role_rights@postgres
-- What each role may do with each of these tables: on all columns, and with some column.
select role.rolname, one.name, has_table_privilege(role.oid, one.name, 'select'),
    has_table_privilege(role.oid, one.name, 'insert'), has_table_privilege(role.oid, one.name, 'update'),
    has_table_privilege(role.oid, one.name, 'delete'), has_any_column_privilege(role.oid, one.name, 'insert'),
    has_any_column_privilege(role.oid, one.name, 'update')
from pg_roles as role cross join unnest(string_to_array(:tables, ',')) as one (name)
where role.rolname = any(string_to_array(:roles, ',')) and to_regclass(one.name) is not null order by 1, 2;

-- name: doctor.role_members@postgres
-- Who has each of these roles, and may log in.
select role.rolname, member.rolname from pg_roles as role
join pg_auth_members as given on given.roleid = role.oid join pg_roles as member on member.oid = given.member
where role.rolname = any(string_to_array(:roles, ',')) and member.rolcanlogin order by 1, 2;

-- name: doctor.powerful_clients@postgres
-- Roles with which Perdure is connected, and that may change the schema. Only a role of pg_monitor sees all of them.
select distinct usename from pg_stat_activity where datname = current_database() and application_name = 'perdure'
    and pid <> pg_backend_pid() and pg_has_role(
        usesysid, (select relowner from pg_class where oid = to_regclass('session')), 'usage'
    )
order by 1 limit :limit;

-- name: doctor.relations@postgres
-- Which of these tables and views exist.
select one.name from unnest(string_to_array(:names, ',')) as one (name) where to_regclass(one.name) is not null;

-- name: doctor.principals
-- How many principals are registered, and how many of them may change the others.
select count(*), coalesce(sum(case when replace(roles, '"owner"', '') <> roles then 1 else 0 end), 0)
from principal where removed_at is null;

-- name: doctor.archive@postgres
-- When the server last archived its log, and when that last failed.
select cast(extract(epoch from last_archived_time) * 1000000 as bigint),
    cast(extract(epoch from last_failed_time) * 1000000 as bigint)
from pg_stat_archiver;
