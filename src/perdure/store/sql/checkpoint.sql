-- name: checkpoint.put
-- Keep a checkpoint; a second one for the same event replaces the first.
insert into checkpoint (session_uid, number, codec, fingerprint, body, created_at)
values (:uid, :number, :codec, :fingerprint, :body, :now)
on conflict (session_uid, number) do update set codec = excluded.codec, fingerprint = excluded.fingerprint,
    body = excluded.body, created_at = excluded.created_at;

-- name: checkpoint.latest
-- The newest checkpoint made by the same program, tools and model.
select {columns:checkpoint} from checkpoint
where session_uid = :uid and fingerprint = :fingerprint and number <= :through
order by number desc limit :limit;

-- name: checkpoint.trim
-- Drop checkpoints that a newer one replaces.
delete from checkpoint where session_uid = :uid and number > :after and number < :before;

-- name: checkpoint.delete_all
-- Drop every checkpoint of every session; nothing is lost but time.
delete from checkpoint;
