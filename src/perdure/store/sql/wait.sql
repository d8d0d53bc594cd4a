-- name: wait.insert
-- Ask for something.
insert into wait (session_uid, id, kind, ref, detail, due_at, since, number)
values (:uid, :id, :kind, :ref, :detail, :due_at, :now, :number)
on conflict (session_uid, id) do nothing;

-- name: wait.resolve
-- Give it, once.
update wait set answer = :answer, resolved_by = :by, resolved_at = :now, resolved_number = :number
where session_uid = :uid and id = :id and resolved_at is null;

-- name: wait.get
-- One wait.
select {columns:wait} from wait where session_uid = :uid and id = :id;

-- name: wait.of_session
-- Everything a session has asked for, in order.
select {columns:wait} from wait where session_uid = :uid order by since, id limit :limit;

-- name: wait.between
-- What a session asked for between two events, in order.
select {columns:wait} from wait where session_uid = :uid and number > :after and number <= :through
order by number limit :limit;

-- name: wait.open_for
-- What a session still waits for on account of one thing.
select {columns:wait} from wait where session_uid = :uid and ref = :ref and resolved_at is null
order by since, id limit :limit;

-- name: wait.open_of_session
-- What a session still waits for.
select {columns:wait} from wait where session_uid = :uid and resolved_at is null order by since, id limit :limit;

-- name: wait.open_of_kind
-- What a session still waits for, of one kind.
select {columns:wait} from wait where session_uid = :uid and resolved_at is null and kind = :kind
order by since, id limit :limit;

-- name: wait.open
-- What sessions wait for, the longest wait first.
select {columns:wait} from wait where resolved_at is null and (cast(:kind as text) is null or kind = :kind)
order by since, session_uid, id limit :limit;

-- name: wait.due
-- Waits whose time has come, of sessions that are not sealed: only their names, so that no stored value can break it.
select session_uid, id, kind from wait
where resolved_at is null and due_at is not null and due_at <= :now and not exists (
    select 1 from session where session.uid = wait.session_uid and session.sealed_at is not null
)
order by due_at limit :limit;

-- name: wait.next_due
-- When the next wait is due after a moment.
select due_at from wait
where resolved_at is null and due_at is not null and due_at > :after and not exists (
    select 1 from session where session.uid = wait.session_uid and session.sealed_at is not null
)
order by due_at limit 1;

-- name: wait.by_id
-- One wait by its id alone; ids are made of digests and collide only when somebody chose them.
select {columns:wait} from wait where id = :id order by session_uid limit :limit;

-- name: wait.by_ref
-- Waits of sessions that are not sealed for one thing.
select {columns:wait} from wait where ref = :ref and resolved_at is null and not exists (
    select 1 from session where session.uid = wait.session_uid and session.sealed_at is not null
)
order by session_uid, id limit :limit;
