-- name: metrics.open_sessions
-- How many sessions are ready, running or waiting, counted up to a number; each from an index of its own.
select 'ready', count(*) from (select 1 from session where status = 'ready' and sealed_at is null and suspected_at is null limit :most) as ready
union all
select 'suspect', count(*) from (select 1 from session where status = 'ready' and sealed_at is null and suspected_at is not null limit :most) as suspect
union all
select 'running', count(*) from (select 1 from session where status = 'running' limit :most) as running
union all
select 'waiting', count(*) from (select 1 from session where status = 'waiting' limit :most) as waiting
union all
select 'failed', count(*) from (select 1 from session where status = 'failed' limit :most) as failed;

-- name: metrics.ended_sessions
-- How the sessions that changed since a time ended, up to a number of sessions.
select status, count(*) from (select status from session where updated_at >= :since order by updated_at desc limit :most) as recent
where status in ('done', 'failed', 'cancelled') group by status;

-- name: metrics.queues
-- How many sessions of each queue are ready, up to a number in all.
select queue, count(*) from (
    select queue from session where status = 'ready' and sealed_at is null limit :most
) as ready group by queue order by queue limit :queues;

-- name: metrics.waits
-- What sessions wait for and since when, up to a number of waits.
select kind, count(*), min(since) from (
    select kind, since from wait where resolved_at is null limit :most
) as open group by kind order by kind;

-- name: metrics.effects
-- The states of the effects that were planned since a time, up to a number of effects.
select state, count(*) from (select state from effect where planned_at >= :since order by planned_at desc limit :most) as recent
group by state order by state;

-- name: metrics.doubts
-- How many effects are in doubt, up to a number, and since when the oldest is.
select count(*), min(doubted_at) from (
    select doubted_at from effect where doubted_at is not null and state = 'dispatched' limit :most
) as doubt;

-- name: metrics.workers
-- How many processes of each role have shown a sign of life since a time.
select role, count(*) from worker where seen_at >= :since group by role order by role;

-- name: metrics.notifications
-- How many notifications wait to be sent, up to a number.
select count(*) from (select 1 from notification where state = 'pending' limit :most) as pending;
