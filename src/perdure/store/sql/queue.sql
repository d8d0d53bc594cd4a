-- name: queue.get
-- One queue that has settings.
select {columns:queue} from queue where name = :name;

-- name: queue.lock
-- Lock and read a queue until the transaction ends.
select {columns:queue} from queue where name = :name {lock};

-- name: queue.insert
-- Create the row of a queue, without limits.
insert into queue (name, version, updated_by, updated_at) values (:name, 1, :by, :now) on conflict (name) do nothing;

-- name: queue.update
-- Change the settings of a queue.
update queue set concurrency = :concurrency, per_key = :per_key, per_worker = :per_worker, rate_count = :rate_count,
    rate_period = :rate_period, rate_at = :rate_at, max_depth = :max_depth, paused_at = :paused_at,
    closed_at = :closed_at, version = :version, updated_by = :by, updated_at = :now
where name = :name;

-- name: queue.list
-- Every queue that has settings.
select {columns:queue} from queue order by name limit :limit;

-- name: queue.count
-- How many sessions of each queue are ready, running, waiting for a slot or for something else, or failed; each from an
-- index of its own. Those that wait for something else are counted up to a number in all.
select queue, 'ready', count(*) from session
where status = 'ready' and sealed_at is null and suspected_at is null group by queue
union all
select queue, 'ready', count(*) from session
where status = 'ready' and sealed_at is null and suspected_at is not null group by queue
union all
select queue, 'running', count(*) from session where status = 'running' group by queue
union all
select queue, 'slot', count(*) from session where status = 'waiting' and slot_since is not null group by queue
union all
select queue, 'waiting', count(*) from (
    select queue from session where status = 'waiting' and slot_since is null limit :most
) as waiting group by queue
union all
select queue, 'failed', count(*) from session
where status = 'failed' and archived_at is null and removed_at is null and parent_uid is null group by queue;

-- name: queue.depth
-- How many sessions of a queue are ready, counted up to a number.
select count(*) from (select 1 from session where status = 'ready' and sealed_at is null and queue = :queue limit :most) as ready;

-- name: queue.oldest_ready
-- Since when the next sessions of each priority have been ready; of each priority the first hundred are read.
with recursive level (priority) as (
    select min(priority) from session where status = 'ready' and sealed_at is null and queue = :queue
    union all
    select (select min(priority) from session where status = 'ready' and sealed_at is null and queue = :queue and priority > level.priority)
    from level where level.priority is not null
)
select min((
    select min(updated_at) from (
        select updated_at from session
        where status = 'ready' and sealed_at is null and queue = :queue and priority = level.priority order by turn limit 100
    ) as next
)) from level;

-- name: queue.ended
-- Sessions that have ended, of those that changed since a time, the last changed first; since when each was ready, when
-- it began and when it ended. A branch has no events before its own first one.
select queue, status, coalesce((
        select resolved_at from wait where wait.session_uid = recent.uid and wait.id = 'start'
    ), created_at), (
        select min(event.at) from event
        where event.session_uid = recent.uid and event.number <= recent.first + 20 and event.kind = 'lease.acquired'
    ), coalesce((
        select max(event.at) from event
        where event.session_uid = recent.uid and event.number > recent.cursor - 20 and event.kind = 'session.finished'
    ), updated_at)
from (
    select uid, queue, status, created_at, updated_at, cursor, coalesce(forked_at, 0) as first from session
    where updated_at >= :since order by updated_at desc limit :most
) as recent
where status in ('done', 'failed', 'cancelled') and (cast(:queue as text) is null or queue = :queue);

-- name: queue.changed_since
-- How many sessions changed since a time, counted up to a number.
select count(*) from (select 1 from session where updated_at >= :since limit :most) as recent;
