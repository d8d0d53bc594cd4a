-- name: wait.insert
-- Open a wait.
insert into wait (session_uid, id, kind, ref, detail, due_at, since, number)
values (:uid, :id, :kind, :ref, :detail, :due_at, :now, :number)
on conflict (session_uid, id) do nothing;

-- name: wait.resolve
-- Resolve a wait, once.
update wait set answer = :answer, resolved_by = :by, resolved_at = :now, resolved_number = :number
where session_uid = :uid and id = :id and resolved_at is null;

-- name: wait.get
-- One wait.
select {columns:wait} from wait where session_uid = :uid and id = :id;

-- name: wait.newest_due
-- When the newest of the waits is due whose ids are between two texts.
select max(due_at) from wait where session_uid = :uid and id >= :first and id < :last;

-- name: wait.of_session
-- Every wait of a session, in order.
select {columns:wait} from wait where session_uid = :uid order by since, id limit :limit;

-- name: wait.between
-- Waits of a session that were opened between two events, in order.
select {columns:wait} from wait where session_uid = :uid and number > :after and number <= :through
order by number limit :limit;

-- name: wait.open_for
-- Open waits of a session for one reference.
select {columns:wait} from wait where session_uid = :uid and ref = :ref and resolved_at is null
order by since, id limit :limit;

-- name: wait.open_of_session
-- Open waits of a session.
select {columns:wait} from wait where session_uid = :uid and resolved_at is null order by since, id limit :limit;

-- name: wait.open_of_kind
-- Open waits of a session, of one kind.
select {columns:wait} from wait where session_uid = :uid and resolved_at is null and kind = :kind
order by since, id limit :limit;

-- name: wait.of_kind
-- Waits of a session of one kind, resolved or not.
select {columns:wait} from wait where session_uid = :uid and kind = :kind order by number limit :limit;

-- name: wait.open
-- Open waits of all sessions, the longest wait first.
select {columns:wait} from wait where resolved_at is null and (cast(:kind as text) is null or kind = :kind)
order by since, session_uid, id limit :limit;

-- name: wait.page
-- Open waits of all sessions, the longest wait first, after one of them; with the queue and the repository of their
-- sessions.
select {columns:wait}, (select queue from session where session.uid = wait.session_uid),
    (select repository_id from session where session.uid = wait.session_uid)
from wait
where resolved_at is null and (cast(:kind as text) is null or kind = :kind)
    and (since, session_uid, id) > (:since, :session_uid, :id)
order by since, session_uid, id limit :limit;

-- name: wait.for_a_person
-- Open waits that keep work from continuing until a person acts (`domain.wait.needs_person`), the longest wait first,
-- after one of them; with the queue and the repository of their sessions, which are not sealed.
select {columns:wait}, (select queue from session where session.uid = wait.session_uid),
    (select repository_id from session where session.uid = wait.session_uid)
from wait
where kind in ({for_a_person}) and resolved_at is null and not (kind = 'input' and ref is null and detail is null)
    and (since, session_uid, id) > (:since, :uid, :id) and exists (
        select 1 from session where session.uid = wait.session_uid and session.sealed_at is null
    )
order by since, session_uid, id limit :limit;

-- name: wait.first_due
-- The waits that are due first, without approvals, and the first deadlines, of sessions that are not sealed; only their
-- keys, so that a damaged value cannot break the query.
select session_uid, id, kind, due_at from (
    select session_uid, id, kind, due_at from wait
    where resolved_at is null and due_at is not null and kind <> 'approval' and not exists (
        select 1 from session where session.uid = wait.session_uid and session.sealed_at is not null
    )
    order by due_at limit :limit
) as due_wait
union all
select session_uid, id, kind, due_at from (
    select uid as session_uid, '' as id, 'deadline' as kind, deadline_at as due_at from session
    where deadline_at is not null and cancel_requested_at is null and status in ('ready', 'running', 'waiting')
        and sealed_at is null
    order by deadline_at limit :limit
) as due_deadline
order by due_at limit :limit;

-- name: wait.first_approvals
-- The first waits for approvals.
select session_uid, id, kind, due_at from wait
where resolved_at is null and due_at is not null and kind = 'approval' and not exists (
    select 1 from session where session.uid = wait.session_uid and session.sealed_at is not null
)
order by due_at limit :limit;

-- name: wait.for_settled_effects
-- Open waits for an effect that is settled.
select {columns:wait} from wait
where resolved_at is null and kind = 'effect' and exists (
    select 1 from effect where effect.id = wait.ref and effect.state not in ('planned', 'dispatched')
)
order by since, session_uid, id limit :limit;

-- name: wait.next_due
-- When the next wait after a time is due.
select due_at from wait
where resolved_at is null and due_at is not null and due_at > :after and not exists (
    select 1 from session where session.uid = wait.session_uid and session.sealed_at is not null
)
order by due_at limit 1;

-- name: wait.by_id
-- Waits by id alone; ids contain digests and collide only when a program chose them.
select {columns:wait} from wait where id = :id order by session_uid limit :limit;

-- name: wait.by_ref
-- Open waits for one reference, of sessions that are not sealed.
select {columns:wait} from wait where ref = :ref and resolved_at is null and not exists (
    select 1 from session where session.uid = wait.session_uid and session.sealed_at is not null
)
order by session_uid, id limit :limit;

-- name: wait.ended_children
-- Sessions that have ended while a wait for them is open.
select distinct session.uid from wait join session on session.uid = wait.ref
where wait.kind = 'child' and wait.resolved_at is null and session.status in ('done', 'failed', 'cancelled')
limit :limit;
