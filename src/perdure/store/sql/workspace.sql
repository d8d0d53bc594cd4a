-- name: workspace.bind
-- Bind a session to the workspace that has its files, once.
update session set workspace = :workspace where uid = :uid and workspace is null;

-- name: workspace.waits
-- Open waits for a workspace, of sessions that belong to it or to none, the oldest first.
select wait.session_uid, wait.id, session.workspace, session.repository from wait
join session on session.uid = wait.session_uid
where wait.resolved_at is null and wait.kind = 'workspace' and session.sealed_at is null
    and (session.workspace is null or session.workspace = :workspace)
order by wait.since, wait.session_uid, wait.id limit :limit;

-- name: workspace.last_process
-- The process of the last attempt of a session.
select process from attempt where session_uid = :uid order by dispatched_at desc limit 1;
