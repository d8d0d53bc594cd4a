-- name: writer.put
-- A process writes, or still writes, under a timeline.
insert into writer (id, host, timeline, finding, seen_at) values (:id, :host, :timeline, :finding, :now)
on conflict (id) do update set timeline = excluded.timeline, finding = excluded.finding, seen_at = excluded.seen_at;

-- name: writer.get
-- One writer.
select {columns:writer} from writer where id = :id;

-- name: writer.behind
-- Writers that have not vouched for a timeline, the longest silent first.
select {columns:writer} from writer where timeline <> :timeline order by seen_at, id limit :limit;

-- name: writer.delete
-- A writer has ended, and left nothing that anybody would have to look for.
delete from writer where id = :id;

-- name: writer.forget_idle
-- Forget writers that have been silent for long: they register again before they write.
delete from writer where timeline = :timeline and finding is null and seen_at < :before;

-- name: writer.forget_behind
-- A person has looked at what was lost: nobody has to vouch for it any more.
delete from writer where timeline <> coalesce((select value from meta where key = 'timeline'), '');
