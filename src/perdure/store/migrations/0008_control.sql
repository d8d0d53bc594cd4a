-- phase: expand
-- compatible_from: 7
-- Many sessions and many workers: queues with limits, schedules, versions of code, limits of model providers. Code of
-- schema 7 can still run sessions while it is replaced, so everything here has a default that it need not know.

insert into wait_kind (kind, meaning) values
    ('slot', 'another session of the same key or queue must stop running'),
    ('workspace', 'a worker on the machine that has its files');

alter table session add column turn {int} not null default 0; -- the order within a queue and a priority, lowest first
alter table session add column max_retries {int}; -- how often it is retried without a person after a failure
alter table session add column deadline_at {int}; -- when it is cancelled, unless it has ended
alter table session add column code_version text; -- the version of the code that it began under
alter table session add column pinned_at {int}; -- it runs only under the version that it began under
alter table session add column workspace text; -- the machine that has its unpublished files
alter table session add column suspected_at {int}; -- its worker died, so it runs alone until it has made progress
alter table session add column lease_alone {int}; -- whether its holder runs no other session; null: not known
alter table session add column slot_since {int}; -- it was ready, and now waits for a slot
alter table session add column schedule_uid text;
alter table session add column scheduled_at {int}; -- the tick of the schedule that started it

create index session_claimable on session (
    queue, program, (case when pinned_at is null then '' else coalesce(code_version, '') end), priority desc, turn, uid
) where status = 'ready' and sealed_at is null and suspected_at is null;
create index session_suspect on session (
    queue, program, (case when pinned_at is null then '' else coalesce(code_version, '') end), priority desc, turn, uid
) where status = 'ready' and sealed_at is null and suspected_at is not null;
create index session_turn on session (queue, priority, turn) where status = 'ready' and sealed_at is null;
create index session_owner_turn on session (queue, priority, coalesce(owner, ''), turn)
where status = 'ready' and sealed_at is null;
create index session_slot on session (queue, concurrency_key, priority desc, turn, uid)
where status = 'waiting' and slot_since is not null;
create index session_by_key on session (queue, concurrency_key)
where concurrency_key is not null and status in ('ready', 'running', 'waiting');
create index session_in_use on session (queue, concurrency_key) where status = 'running';
create index session_holder on session (lease_holder) where status = 'running';
create index session_nonce on session (lease_nonce) where status = 'running';
create index session_deadline on session (deadline_at)
where deadline_at is not null and cancel_requested_at is null and status in ('ready', 'running', 'waiting');
create index session_failed on session (queue, updated_at)
where status = 'failed' and archived_at is null and removed_at is null and parent_uid is null;
create index session_of_schedule on session (schedule_uid, scheduled_at) where schedule_uid is not null;
create index session_of_schedule_open on session (schedule_uid, scheduled_at)
where schedule_uid is not null and status in ('ready', 'running', 'waiting') and sealed_at is null;
create index wait_approval on wait (due_at) where kind = 'approval' and resolved_at is null and due_at is not null;

alter table attempt add column heartbeat_at {int}; -- when its tool last reported that it is still running
alter table attempt add column progress text; -- what it reported

create table queue (
    name text primary key not null check (name <> ''),
    concurrency {int} check (concurrency >= 0), -- sessions that run at a time, in all
    per_key {int} check (per_key >= 1), -- and for each key
    per_worker {int} check (per_worker >= 1), -- and in each worker
    rate_count {int} check (rate_count >= 1), -- runs that may begin in each period
    rate_period {int} check (rate_period >= 1),
    rate_at {int}, -- when the rate is used up to; the past means that nothing is used
    max_depth {int} check (max_depth >= 1), -- sessions that may be ready
    paused_at {int}, -- nothing is claimed
    closed_at {int}, -- nothing new is started
    version {int} not null check (version >= 1),
    updated_by text not null,
    updated_at {int} not null,
    check ((rate_count is null) = (rate_period is null))
) {strict};

create table schedule (
    uid text primary key not null check (length(uid) = 32),
    name text not null check (name <> ''),
    cron text,
    every {int} check (every >= 1),
    timezone text not null,
    jitter {int} not null check (jitter >= 0),
    overlap text not null check (overlap in ('skip', 'queue', 'cancel')),
    catch_up text not null check (catch_up in ('all', 'last', 'none')),
    program text not null,
    arguments text not null,
    options text not null, -- of the sessions that it starts: owner, repository, queue, priority, key, retries, timeout
    last_tick {int}, -- the newest tick that was handled
    next_due {int}, -- when the next tick is to be handled, its jitter included
    paused_at {int},
    removed_at {int},
    version {int} not null check (version >= 1),
    updated_by text not null,
    updated_at {int} not null,
    outcomes text not null, -- the newest tick that was started, skipped, dropped or refused
    check ((cron is null) <> (every is null))
) {strict};

create unique index schedule_name on schedule (name) where removed_at is null;
create index schedule_due on schedule (next_due) where next_due is not null and paused_at is null and removed_at is null;

alter table worker add column role text not null default 'worker';
alter table worker add column parent text; -- the supervisor that started it
alter table worker add column machine text;
alter table worker add column queues text; -- null: all of them
alter table worker add column concurrency {int};
alter table worker add column code_version text;
alter table worker add column code text; -- digests of the programs and tools that it has
alter table worker add column workspaces text; -- repositories on its machine
alter table worker add column draining_at {int};
alter table worker add column tree text; -- of a supervisor: its children, as it last saw them

create table rate_limit (
    name text primary key not null check (name <> ''), -- of a model provider, or of one of its models
    requests {int} check (requests >= 1), -- in a minute
    tokens {int} check (tokens >= 1), -- in a minute
    requests_at {int}, -- when the requests are used up to
    tokens_at {int},
    blocked_until {int}, -- the provider asked all callers to wait
    updated_by text not null,
    updated_at {int} not null
) {strict};
