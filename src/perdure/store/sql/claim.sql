-- name: claim.use_indexes
-- Plan the statements of this transaction along the indexes; SQLite is told in each statement.
select 1;

-- name: claim.use_indexes@postgres
-- The same for PostgreSQL, also where statistics are missing or old. It ends with the transaction.
select set_config('enable_sort', 'off', true) || set_config('enable_seqscan', 'off', true)
    || set_config('enable_bitmapscan', 'off', true) || set_config('jit', 'off', true);

-- name: claim.adopt
-- Sessions that one claim took: its answer may have been lost.
select {candidate} from session where status = 'running' and lease_nonce = :nonce {lock};

-- name: claim.sources
-- The queues, programs and pinned versions of sessions that can be claimed, in steps along the index of those sessions.
with recursive in_queue (queue) as (
    select (select queue from session {index:session_claimable} where {claimable} order by queue, program limit 1)
    union all
    select (
        select session.queue from session {index:session_claimable} where {claimable} and session.queue > in_queue.queue
        order by session.queue, session.program limit 1
    ) from in_queue where in_queue.queue is not null
), in_program (queue, program) as (
    select in_queue.queue, (
        select session.program from session {index:session_claimable} where {claimable} and session.queue = in_queue.queue
        order by session.program, {pin} limit 1
    ) from in_queue where in_queue.queue is not null
    union all
    select in_program.queue, (
        select session.program from session {index:session_claimable}
        where {claimable} and session.queue = in_program.queue and session.program > in_program.program
        order by session.program, {pin} limit 1
    ) from in_program where in_program.program is not null
), in_version (queue, program, version) as (
    select in_program.queue, in_program.program, (
        select {pin} from session {index:session_claimable}
        where {claimable} and session.queue = in_program.queue and session.program = in_program.program
        order by {pin}, priority desc limit 1
    ) from in_program where in_program.program is not null
    union all
    select in_version.queue, in_version.program, (
        select {pin} from session {index:session_claimable}
        where {claimable} and session.queue = in_version.queue and session.program = in_version.program
            and {pin} > in_version.version
        order by {pin}, priority desc limit 1
    ) from in_version where in_version.version is not null
)
select queue, program, version from in_version where version is not null;

-- name: claim.suspect_sources
-- The same for sessions that must run alone.
with recursive in_queue (queue) as (
    select (select queue from session {index:session_suspect} where {suspect} order by queue, program limit 1)
    union all
    select (
        select session.queue from session {index:session_suspect} where {suspect} and session.queue > in_queue.queue
        order by session.queue, session.program limit 1
    ) from in_queue where in_queue.queue is not null
), in_program (queue, program) as (
    select in_queue.queue, (
        select session.program from session {index:session_suspect} where {suspect} and session.queue = in_queue.queue
        order by session.program, {pin} limit 1
    ) from in_queue where in_queue.queue is not null
    union all
    select in_program.queue, (
        select session.program from session {index:session_suspect}
        where {suspect} and session.queue = in_program.queue and session.program > in_program.program
        order by session.program, {pin} limit 1
    ) from in_program where in_program.program is not null
), in_version (queue, program, version) as (
    select in_program.queue, in_program.program, (
        select {pin} from session {index:session_suspect}
        where {suspect} and session.queue = in_program.queue and session.program = in_program.program
        order by {pin}, priority desc limit 1
    ) from in_program where in_program.program is not null
    union all
    select in_version.queue, in_version.program, (
        select {pin} from session {index:session_suspect}
        where {suspect} and session.queue = in_version.queue and session.program = in_version.program
            and {pin} > in_version.version
        order by {pin}, priority desc limit 1
    ) from in_version where in_version.version is not null
)
select queue, program, version from in_version where version is not null;

-- name: claim.ready
-- The next sessions of one source, in the order in which they run.
select {candidate} from session {index:session_claimable}
where {claimable} and queue = :queue and program = :program and {pin} = :version
order by priority desc, turn, uid limit :limit {skip_locked};

-- name: claim.suspects
-- The next sessions of one source that must run alone.
select {candidate} from session {index:session_suspect}
where {suspect} and queue = :queue and program = :program and {pin} = :version
order by priority desc, turn, uid limit :limit {skip_locked};

-- name: claim.lock_limits
-- Lock and read a queue that has limits for claims.
select {columns:queue} from queue
where name = :name and (
    concurrency is not null or per_key is not null or per_worker is not null or rate_count is not null
    or paused_at is not null
) {lock};

-- name: claim.in_use
-- How many sessions of a queue run, as far as that matters.
select count(*) from (select 1 from session where status = 'running' and queue = :queue limit :limit) as running;

-- name: claim.in_use_of_key
-- How many sessions of a queue and a key run, as far as that matters.
select count(*) from (
    select 1 from session where status = 'running' and queue = :queue and concurrency_key = :key limit :limit
) as running;

-- name: claim.in_use_of_worker
-- How many sessions of a queue run in one worker.
select count(*) from session where status = 'running' and lease_holder = :holder and queue = :queue;

-- name: claim.use_rate
-- Note how far the rate of a queue is used up.
update queue set rate_at = :rate_at where name = :name;

-- name: claim.slot_queues
-- The queues that have sessions which wait for a slot.
with recursive in_queue (queue) as (
    select (
        select queue from session {index:session_slot} where status = 'waiting' and slot_since is not null
        order by queue, concurrency_key limit 1
    )
    union all
    select (
        select session.queue from session {index:session_slot}
        where status = 'waiting' and slot_since is not null and session.queue > in_queue.queue
        order by session.queue, session.concurrency_key limit 1
    ) from in_queue where in_queue.queue is not null
)
select queue from in_queue where queue is not null;

-- name: claim.slot_keys
-- The keys of a queue for which sessions wait.
with recursive in_key (key) as (
    select (
        select concurrency_key from session {index:session_slot}
        where status = 'waiting' and slot_since is not null and queue = :queue
        order by concurrency_key, priority desc limit 1
    )
    union all
    select (
        select session.concurrency_key from session {index:session_slot}
        where status = 'waiting' and slot_since is not null and session.queue = :queue
            and session.concurrency_key > in_key.key
        order by session.concurrency_key, session.priority desc limit 1
    ) from in_key where in_key.key is not null
)
select key from in_key where key is not null;

-- name: claim.slot_waiters
-- The next sessions of a key that wait for a slot.
select {candidate} from session {index:session_slot}
where status = 'waiting' and slot_since is not null and queue = :queue and concurrency_key = :key
order by priority desc, turn, uid limit :limit {skip_locked};

-- name: claim.take
-- Give a ready session to a holder, and move the row to the new end of its log.
update session set status = 'running', lease_holder = :holder, lease_nonce = :nonce, lease_epoch = :epoch,
    lease_until = :until, lease_alone = :alone, code_version = coalesce(code_version, :code_version),
    cursor = :cursor, chain = :chain, updated_at = :now
where uid = :uid;

-- name: claim.share
-- The holder of a session runs others too from now on.
update session set lease_alone = 0 where uid = :uid and lease_holder = :holder;

-- name: claim.wait_for_slot
-- A ready session waits until another one of its key has stopped running.
update session set status = 'waiting', waiting_since = :now, slot_since = :now where uid = :uid;

-- name: claim.give_slot
-- A session that waited for a slot is ready again, at its old turn.
update session set status = 'ready', waiting_since = null, slot_since = null where uid = :uid;

-- name: claim.is_possible
-- A row if any session is ready or waits for a slot.
select 1 where exists (select 1 from session where status = 'ready' and sealed_at is null)
    or exists (select 1 from session where status = 'waiting' and slot_since is not null);
