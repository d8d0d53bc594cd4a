-- name: artifact.insert
-- Claim some bytes for a session.
insert into artifact (session_uid, digest, kind, size, location, retention, created_at)
values (:uid, :digest, :kind, :size, :location, :retention, :now)
on conflict (session_uid, digest) do nothing;

-- name: artifact.of_session
-- What a session keeps.
select {columns:artifact} from artifact where session_uid = :uid order by created_at, digest limit :limit;

-- name: artifact.digests
-- Every digest that somebody claims, in order.
select distinct digest from artifact where digest > :after order by digest limit :limit;
