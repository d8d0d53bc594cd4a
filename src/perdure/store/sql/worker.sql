-- name: worker.put
-- Register a worker, or refresh its registration.
insert into worker (id, host, boot_id, pid, start_token, schema_from, schema_to, programs, started_at, seen_at)
values (:id, :host, :boot_id, :pid, :start_token, :schema_from, :schema_to, :programs, :now, :now)
on conflict (id) do update set programs = excluded.programs, seen_at = excluded.seen_at;

-- name: worker.seen
-- A worker's heartbeat.
update worker set seen_at = :now where id = :id;

-- name: worker.delete
-- Remove a worker.
delete from worker where id = :id;

-- name: worker.list
-- Workers, the most recently seen first.
select {columns:worker} from worker order by seen_at desc, id limit :limit;
