-- name: writer.put
-- Register a writer under a timeline, or refresh its registration.
insert into writer (id, host, timeline, finding, seen_at) values (:id, :host, :timeline, :finding, :now)
on conflict (id) do update set timeline = excluded.timeline, finding = excluded.finding, seen_at = excluded.seen_at;

-- name: writer.get
-- One writer.
select {columns:writer} from writer where id = :id;

-- name: writer.behind
-- Writers that have not confirmed a timeline, the longest silent first.
select {columns:writer} from writer where timeline <> :timeline order by seen_at, id limit :limit;

-- name: writer.delete
-- Remove a writer that has ended and has nothing left to confirm.
delete from writer where id = :id;

-- name: writer.forget_idle
-- Forget writers that have been silent for long: they register again before they write.
delete from writer where timeline = :timeline and finding is null and seen_at < :before;

-- name: writer.forget_behind
-- Remove the writers that did not confirm a restore which a person has released.
delete from writer where timeline <> coalesce((select value from meta where key = 'timeline'), '');
