-- name: stuck.silent
-- Running sessions under a valid lease, without an event or a heartbeat of a tool since a time.
select session.uid, session.id, session.lease_holder, event.at, (
    select effect.tool from effect where effect.session_uid = session.uid and effect.state = 'dispatched' limit 1
)
from session join event on event.session_uid = session.uid and event.number = session.cursor
where session.status = 'running' and session.lease_until >= :now and session.sealed_at is null and event.at < :before
    and not exists (
        select 1 from effect join attempt on attempt.session_uid = effect.session_uid and attempt.effect_id = effect.id
        where effect.session_uid = session.uid and effect.state in ('planned', 'dispatched')
            and attempt.heartbeat_at >= :before
    )
order by event.at, session.uid limit :limit;

-- name: stuck.first_ready
-- The session that is first in line of a queue, program and pinned version, and when it became ready.
select found.uid, found.id, event.at from (
    select uid, id, cursor from session {index:session_claimable}
    where {claimable} and queue = :queue and program = :program and {pin} = :version
    order by priority desc, turn, uid limit 1
) as found join event on event.session_uid = found.uid and event.number = found.cursor;

-- name: stuck.first_suspect
-- The same for sessions that must run alone.
select found.uid, found.id, event.at from (
    select uid, id, cursor from session {index:session_suspect}
    where {suspect} and queue = :queue and program = :program and {pin} = :version
    order by priority desc, turn, uid limit 1
) as found join event on event.session_uid = found.uid and event.number = found.cursor;

-- name: stuck.waits
-- Sessions with an open wait of one kind, the longest wait first.
select session.uid, session.id, session.program, session.queue, wait.ref, wait.since
from wait join session on session.uid = wait.session_uid
where wait.kind = :kind and wait.resolved_at is null and session.status = 'waiting' and session.sealed_at is null
order by wait.since, session.uid limit :limit;

-- name: stuck.slot
-- A session that waits for a slot of a queue.
select uid, id, slot_since from session
where status = 'waiting' and slot_since is not null and queue = :queue and sealed_at is null
order by concurrency_key, priority desc, turn, uid limit 1;

-- name: stuck.overdue
-- Sessions that wait for a time that has passed.
select session.uid, session.id, wait.due_at from wait join session on session.uid = wait.session_uid
where wait.resolved_at is null and wait.due_at is not null and wait.due_at < :before
    and session.status = 'waiting' and session.sealed_at is null
order by wait.due_at, session.uid limit :limit;

-- name: stuck.past_deadline
-- Sessions that were to be cancelled at a time that has passed.
select uid, id, status, deadline_at from session
where deadline_at is not null and cancel_requested_at is null and status in ('ready', 'running', 'waiting')
    and deadline_at < :before and sealed_at is null
order by deadline_at, uid limit :limit;

-- name: stuck.closed_queues
-- Queues of which no session may run.
select name, paused_at from queue where paused_at is not null or concurrency = 0 order by name limit :limit;
