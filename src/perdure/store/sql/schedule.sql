-- name: schedule.insert
-- Add a schedule, unless its name is in use.
insert into schedule (
    uid, name, cron, every, timezone, jitter, overlap, catch_up, program, arguments, options, last_tick, next_due,
    version, updated_by, updated_at, outcomes
) values (
    :uid, :name, :cron, :every, :timezone, :jitter, :overlap, :catch_up, :program, :arguments, :options, :last_tick,
    :next_due, 1, :by, :now, '{}'
) on conflict do nothing;

-- name: schedule.change
-- Change a schedule.
update schedule set cron = :cron, every = :every, timezone = :timezone, jitter = :jitter, overlap = :overlap,
    catch_up = :catch_up, program = :program, arguments = :arguments, options = :options, last_tick = :last_tick,
    next_due = :next_due, version = :version, updated_by = :by, updated_at = :now
where uid = :uid;

-- name: schedule.pause
-- Pause a schedule, or with null resume it.
update schedule set paused_at = :at, updated_by = :by, updated_at = :now where uid = :uid;

-- name: schedule.remove
-- Remove a schedule; its name can be used again.
update schedule set removed_at = :now, next_due = null, updated_by = :by, updated_at = :now where uid = :uid;

-- name: schedule.advance
-- Record which tick was handled last, what became of it, and when the next one is due.
update schedule set last_tick = :last_tick, next_due = :next_due, outcomes = :outcomes where uid = :uid;

-- name: schedule.hold
-- Handle a schedule later.
update schedule set next_due = :next_due where uid = :uid;

-- name: schedule.lock
-- Lock and read a schedule until the transaction ends.
select {columns:schedule} from schedule where uid = :uid {lock};

-- name: schedule.lock_by_name
-- The same, by its name.
select {columns:schedule} from schedule where name = :name and removed_at is null {lock};

-- name: schedule.get_by_name
-- One schedule.
select {columns:schedule} from schedule where name = :name and removed_at is null;

-- name: schedule.list
-- Every schedule.
select {columns:schedule} from schedule where removed_at is null order by name limit :limit;

-- name: schedule.due
-- Schedules with a tick that is due, the longest overdue first.
select {columns:schedule} from schedule
where next_due is not null and paused_at is null and removed_at is null and next_due <= :now
order by next_due, uid limit :limit;

-- name: schedule.next_due
-- When the next tick of any schedule is due.
select min(next_due) from schedule where next_due is not null and paused_at is null and removed_at is null;

-- name: schedule.session_at
-- The session of one tick.
select {columns:session} from session where schedule_uid = :uid and scheduled_at = :tick limit 1;

-- name: schedule.sessions
-- The newest sessions of a schedule.
select {columns:session} from session where schedule_uid = :uid order by scheduled_at desc limit :limit;

-- name: schedule.open_sessions
-- Sessions of a schedule that have not ended; those that do not wait in line come first.
select session.uid, session.id, case when wait.id is null then 0 else 1 end as in_line
from session left join wait on wait.session_uid = session.uid and wait.id = :wait_id and wait.resolved_at is null
where schedule_uid = :uid and status in ('ready', 'running', 'waiting') and sealed_at is null
order by in_line, scheduled_at limit :limit;

-- name: schedule.lines
-- Schedules with sessions that wait in line.
select distinct session.schedule_uid
from session join wait on wait.session_uid = session.uid and wait.id = :wait_id and wait.resolved_at is null
where schedule_uid is not null and status in ('ready', 'running', 'waiting') and sealed_at is null
limit :limit;
