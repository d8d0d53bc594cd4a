-- name: worker.put
-- Register a worker, or refresh its registration.
insert into worker (
    id, host, boot_id, pid, start_token, schema_from, schema_to, programs, started_at, seen_at,
    role, parent, machine, queues, concurrency, code_version, code, workspaces, draining_at, tree
) values (
    :id, :host, :boot_id, :pid, :start_token, :schema_from, :schema_to, :programs, :now, :now,
    :role, :parent, :machine, :queues, :concurrency, :code_version, :code, :workspaces, :draining_at, :tree
) on conflict (id) do update set
    programs = excluded.programs, queues = excluded.queues, concurrency = excluded.concurrency,
    code_version = excluded.code_version, code = excluded.code, workspaces = excluded.workspaces,
    draining_at = excluded.draining_at, tree = excluded.tree, seen_at = excluded.seen_at;

-- name: worker.set_tree
-- The children of a supervisor, as it sees them.
update worker set tree = :tree, seen_at = :now where id = :id;

-- name: worker.set_draining
-- A worker takes nothing new from now on.
update worker set draining_at = coalesce(draining_at, :now), seen_at = :now where id = :id;

-- name: worker.seen
-- A worker's heartbeat.
update worker set seen_at = :now where id = :id;

-- name: worker.get
-- One worker.
select {columns:worker} from worker where id = :id;

-- name: worker.delete
-- Remove a worker.
delete from worker where id = :id;

-- name: worker.delete_idle
-- Remove a worker that was not seen since its row was read, and holds no session.
delete from worker where id = :id and seen_at = :seen_at
    and not exists (select 1 from session where status = 'running' and lease_holder = :holder);

-- name: worker.list
-- Workers, the most recently seen first.
select {columns:worker} from worker order by seen_at desc, id limit :limit;

-- name: worker.running_sessions
-- How many sessions each holder runs, from an index of running sessions.
select lease_holder, count(*) from session where status = 'running' group by lease_holder;
