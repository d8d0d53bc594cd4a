-- name: session.insert
-- Insert a session; an id or uid that exists already changes nothing.
insert into session (
    uid, id, program, arguments, title, repository, owner, queue, priority, concurrency_key, status, waiting_since,
    cursor, chain, parent_uid, parent_wait, forked_from, forked_at, branch, lease_epoch, restart_number, restart_arguments,
    crash_count, tokens_in, tokens_out, cost_micros, created_at, updated_at, version, policy_at, model, max_retries,
    deadline_at, pinned_at, code_version, workspace, schedule_uid, scheduled_at, repository_id, turn
) values (
    :uid, :id, :program, :arguments, :title, :repository, :owner, :queue, :priority, :concurrency_key, :status,
    :waiting_since,
    0, :chain, :parent_uid, :parent_wait, :forked_from, :forked_at, :branch, 0, :restart_number, :restart_arguments,
    0, 0, 0, 0, :now, :now, 1, :policy_at, :model, :max_retries, :deadline_at, :pinned_at, :code_version, :workspace,
    :schedule_uid, :scheduled_at, :repository_id,
    {greatest}(
        coalesce((
            select min(turn) from session
            where status = 'ready' and sealed_at is null and queue = :queue and priority = :priority
        ), 0),
        coalesce((
            select max(turn) + 1 from session
            where status = 'ready' and sealed_at is null and queue = :queue and priority = :priority
                and coalesce(owner, '') = coalesce(cast(:owner as text), '')
        ), 0)
    )
) on conflict do nothing;

-- name: session.lock_head
-- Lock a session's row and read what every move needs of it.
select uid, id, status, cursor, chain, lease_holder, lease_nonce, lease_epoch, lease_until, restart_number,
    cancel_requested_at, pause_requested_at, interrupt_requested_at, sealed_at, version, removed_at, queue
from session where uid = :uid {lock};

-- name: session.advance
-- Move the row to the new end of its log.
update session set cursor = :cursor, chain = :chain, updated_at = :now where uid = :uid;

-- name: session.advance_held
-- Move the row to the new end of its log, if its lease and its end are as the holder knows them.
update session set cursor = :number, chain = :chain
where uid = :session_uid and lease_epoch = :epoch and lease_nonce = :nonce and cursor = :cursor
    and chain = :was_chain;

-- name: session.advance_run
-- The same, if the program was not restarted.
update session set cursor = :number, chain = :chain
where uid = :session_uid and lease_epoch = :epoch and lease_nonce = :nonce and cursor = :cursor
    and chain = :was_chain and restart_number = :restart_number;

-- name: session.advance_acting
-- The same, if the first attempt of an effect has no outcome yet.
update session set cursor = :number, chain = :chain
where uid = :session_uid and lease_epoch = :epoch and lease_nonce = :nonce and cursor = :cursor
    and chain = :was_chain and exists (
        select 1 from attempt
        where attempt.session_uid = :session_uid and effect_id = :effect_id and number = 1 and outcome is null
    );

-- name: session.touch
-- Record the time of the last update.
update session set updated_at = :at where uid = :session_uid;

-- name: session.rewrite
-- Write the row as it is: a commit that changes nothing still waits for everything before it.
update session set updated_at = updated_at where uid = :session_uid;

-- name: session.set_status
-- Make a move between states that hold no lease.
update session set status = :status, waiting_since = :waiting_since, error = null where uid = :uid;

-- name: session.enqueue
-- Make a waiting session ready, behind the others of its owner and before those that have had their turn. One that is
-- to start later stays as it is: its program must not begin, whatever else happens to it.
update session set status = 'ready', waiting_since = null, slot_since = null, error = null, turn = {greatest}(
    coalesce((
        select min(other.turn) from session as other
        where other.status = 'ready' and other.sealed_at is null and other.queue = session.queue
            and other.priority = session.priority
    ), 0),
    coalesce((
        select max(other.turn) + 1 from session as other
        where other.status = 'ready' and other.sealed_at is null and other.queue = session.queue
            and other.priority = session.priority and coalesce(other.owner, '') = coalesce(session.owner, '')
    ), 0)
)
where uid = :uid and not exists (
    select 1 from wait where wait.session_uid = :uid and wait.id = 'start' and wait.resolved_at is null
);

-- name: session.lease
-- Give the session to a holder.
update session set status = 'running', waiting_since = null, lease_holder = :holder, lease_nonce = :nonce,
    lease_epoch = :epoch, lease_until = :until, crash_count = :crash_count, lease_alone = :alone,
    suspected_at = coalesce(:suspected_at, suspected_at), code_version = coalesce(code_version, :code_version)
where uid = :uid;

-- name: session.renew
-- Prolong the lease of the holder that still has it.
update session set lease_until = :until where uid = :uid and lease_epoch = :epoch and lease_nonce = :nonce;

-- name: session.lock_free
-- Lock a session's row, unless another move holds it.
select uid from session where uid = :uid {skip_locked};

-- name: session.held
-- Which acquisition holds a session, as of its last commit.
select lease_nonce from session where uid = :uid;

-- name: session.keep
-- Give a holder its lease back, under another epoch.
update session set lease_epoch = :epoch, lease_until = :until where uid = :uid;

-- name: session.unlease
-- Take the session from its holder, into another state.
update session set status = :status, waiting_since = :waiting_since, lease_holder = null, lease_nonce = null,
    lease_until = null, lease_alone = null, crash_count = :crash_count, suspected_at = :suspected_at
where uid = :uid;

-- name: session.forget_crashes
-- Reset the crash count.
update session set crash_count = 0, suspected_at = null where uid = :uid;

-- name: session.finish
-- End the session with its result or its error.
update session set status = :status, waiting_since = null, result = :result, error = :error, lease_holder = null,
    lease_nonce = null, lease_until = null, lease_alone = null, suspected_at = null
where uid = :uid;

-- name: session.request_cancel
-- Record a request to cancel.
update session set cancel_requested_at = :now where uid = :uid;

-- name: session.request_pause
-- Record a request to pause, or remove it.
update session set pause_requested_at = :at where uid = :uid;

-- name: session.request_interrupt
-- Record a request to interrupt, or remove it.
update session set interrupt_requested_at = :at where uid = :uid;

-- name: session.interrupt_requested_at
-- When an interrupt was requested that has not been honoured yet.
select interrupt_requested_at from session where uid = :uid;

-- name: session.describe
-- Change title, owner, queue and priority. In another queue or priority it has another turn.
update session set title = :title, owner = :owner, queue = :queue, priority = :priority, version = :version,
    turn = case when queue = :queue and priority = :priority then turn else {greatest}(
        coalesce((
            select min(other.turn) from session as other
            where other.status = 'ready' and other.sealed_at is null and other.queue = :queue
                and other.priority = :priority
        ), 0),
        coalesce((
            select max(other.turn) + 1 from session as other
            where other.status = 'ready' and other.sealed_at is null and other.queue = :queue
                and other.priority = :priority and coalesce(other.owner, '') = coalesce(cast(:owner as text), '')
        ), 0)
    ) end
where uid = :uid and version = :was;

-- name: session.set_arguments
-- Give a session that has not begun other arguments.
update session set arguments = :arguments, version = :version where uid = :uid;

-- name: session.remove
-- Turn a session into a tombstone: its content is forgotten, and its id stays.
update session set status = :status, waiting_since = null, arguments = '{}', result = null, error = null, title = null,
    repository = null, repository_id = null, owner = null, concurrency_key = null, restart_arguments = null, model = null, archived_at = null,
    cancel_requested_at = null, pause_requested_at = null, interrupt_requested_at = null, removed_at = :now
where uid = :uid;

-- name: session.unpin
-- Let workers of any version run a session.
update session set pinned_at = null where uid = :uid and pinned_at is not null;

-- name: session.archive
-- Hide a session from the list, or show it again.
update session set archived_at = :at where uid = :uid;

-- name: session.retry
-- Take a failed session out of its end; it is made ready next.
update session set status = 'waiting', waiting_since = :now, error = null, retries = :retries, cancel_requested_at = null,
    pause_requested_at = null, interrupt_requested_at = null, archived_at = null, crash_count = 0,
    deadline_at = :deadline_at
where uid = :uid;

-- name: session.count_retry
-- Count a retry of a session that runs.
update session set retries = :retries where uid = :uid;

-- name: session.set_model
-- Choose the model of an agent's next calls.
update session set model = :model where uid = :uid;

-- name: session.chosen_model
-- The model that a person chose for a session.
select model from session where uid = :uid;

-- name: session.restart
-- Restart the program in the same session.
update session set restart_number = :restart_number, restart_arguments = :arguments where uid = :uid;

-- name: session.use
-- Add what a model call cost.
update session set tokens_in = :tokens_in, tokens_out = :tokens_out, cost_micros = :cost_micros where uid = :uid;

-- name: session.seal
-- Seal the session because it continues in another store.
update session set sealed_at = :now where uid = :uid;

-- name: session.get
-- One session by its uid.
select {columns:session} from session where uid = :uid;

-- name: session.get_by_id
-- One session by its id.
select {columns:session} from session where id = :id;

-- name: session.a_branch
-- One branch of a session, if it has any.
select uid from session where forked_from = :uid limit :limit;

-- name: session.get_by_prefix
-- Sessions whose id or uid has a prefix; two are enough to know that it is not unique.
select {columns:session} from session
where removed_at is null and ((id >= :prefix and id < :beyond) or (uid >= :prefix and uid < :beyond))
order by id limit :limit;

-- name: session.list
-- Sessions by an operator's filters, the most recently updated first. `archived`: 0 without, 1 only, 2 with archived ones.
select {columns:session} from session
where removed_at is null and (:archived = 2 or (:archived = 1) = (archived_at is not null))
    and (cast(:status as text) is null or status = :status)
    and (cast(:owner as text) is null or owner = :owner)
    and (cast(:repository as text) is null or repository = :repository)
    and (cast(:waiting_for as text) is null or (sealed_at is null and exists (
        select 1 from wait where wait.session_uid = session.uid and wait.resolved_at is null and wait.kind = :waiting_for
    )))
    and (updated_at < :before or (updated_at = :before and uid < :before_uid))
order by updated_at desc, uid desc limit :limit;

-- name: session.by_key
-- Sessions of a queue and a key that have not ended, the oldest first.
select {columns:session} from session
where queue = :queue and concurrency_key = :key and concurrency_key is not null
    and status in ('ready', 'running', 'waiting') and sealed_at is null
order by created_at, uid limit :limit;

-- name: session.failed
-- Failed sessions that no process retries and that are not archived, by uid. A child belongs to its parent.
select {columns:session} from session
where status = 'failed' and archived_at is null and removed_at is null and parent_uid is null and sealed_at is null
    and (cast(:queue as text) is null or queue = :queue)
    and (cast(:program as text) is null or program = :program)
    and (cast(:owner as text) is null or owner = :owner)
    and updated_at >= :since and uid > :after
order by uid limit :limit;

-- name: session.failed_page
-- The same, the most recently changed first, after one of them.
select {columns:session} from session
where status = 'failed' and archived_at is null and removed_at is null and parent_uid is null and sealed_at is null
    and (cast(:queue as text) is null or queue = :queue)
    and (cast(:program as text) is null or program = :program)
    and (cast(:owner as text) is null or owner = :owner)
    and updated_at >= :since
    and updated_at <= :updated_at and (updated_at < :updated_at or uid > :uid)
order by updated_at desc, uid limit :limit;

-- name: session.children
-- The children of a session that have not ended.
select uid from session where parent_uid = :uid and status in ('ready', 'running', 'waiting') and sealed_at is null
order by uid limit :limit;

-- name: session.unasked_child
-- A child that has not ended and has no request to cancel.
select uid from session where parent_uid = :uid and status in ('ready', 'running', 'waiting') and sealed_at is null
    and cancel_requested_at is null
limit 1;

-- name: session.has_acted
-- A row if a session's program recorded anything.
select 1 where exists (select 1 from step where session_uid = :uid)
    or exists (select 1 from effect where session_uid = :uid)
    or exists (
        select 1 from wait where session_uid = :uid and kind in ('input', 'timer', 'child')
            and not (kind = 'timer' and (id = 'start' or substr(id, 1, 6) = 'retry-'))
    );

-- name: session.branches
-- The branches that were forked from a session.
select uid from session where forked_from = :uid order by uid limit :limit;

-- name: session.repositories
-- The repositories that sessions work in.
select distinct repository from session where repository is not null order by repository limit :limit;

-- name: session.for_a_person
-- Sessions that wait, at least in part, for input of a person; the most recently updated first.
select {columns:session} from session
where uid in (
        select session_uid from wait
        where resolved_at is null and kind in (
            'approval', 'input', 'doubt', 'paused', 'program', 'policy', 'quarantine'
        )
            and not (kind = 'input' and ref is null and detail is null)
    )
    and status in ('ready', 'running', 'waiting') and sealed_at is null
    and (cast(:status as text) is null or status = :status)
    and (cast(:owner as text) is null or owner = :owner)
    and (cast(:repository as text) is null or repository = :repository)
order by updated_at desc, uid desc limit :limit;

-- name: session.entry
-- One session as workers see it, if it can be run.
select uid, id, program, status, priority, updated_at, cursor, lease_holder, lease_until from session
where uid = :uid and sealed_at is null and status in ('ready', 'running', 'waiting');

-- name: session.expired
-- Sessions whose holder stopped renewing the lease.
select {columns:session} from session where status = 'running' and lease_until < :now and sealed_at is null
order by lease_until limit :limit;

-- name: session.count
-- How many sessions there are in each state.
select status, count(*) from session group by status order by status;
