-- name: artifact.insert
-- Claim some bytes for a session.
insert into artifact (session_uid, digest, kind, size, location, retention, created_at)
values (:uid, :digest, :kind, :size, :location, :retention, :now)
on conflict (session_uid, digest) do nothing;

-- name: artifact.of_session
-- Artifacts of a session.
select {columns:artifact} from artifact where session_uid = :uid order by created_at, digest limit :limit;

-- name: artifact.digests
-- Every claimed digest, in order.
select distinct digest from artifact where digest > :after order by digest limit :limit;

-- name: artifact.list
-- Claims on artifacts, of one session or of all, the newest first.
select {columns:artifact} from artifact where (cast(:uid as text) is null or session_uid = :uid)
order by created_at desc, digest, session_uid limit :limit;

-- name: artifact.page
-- Claims on artifacts, the newest first, after one of them; with the queue and the repository of their sessions.
select {columns:artifact}, (select queue from session where session.uid = artifact.session_uid),
    (select repository_id from session where session.uid = artifact.session_uid)
from artifact
where created_at <= :created_at and (created_at < :created_at or (digest, session_uid) > (:digest, :session_uid))
    and (cast(:uid as text) is null or session_uid = :uid)
order by created_at desc, digest, session_uid limit :limit;

-- name: artifact.by_prefix
-- Digests that begin with a prefix.
select distinct digest from artifact where digest >= :prefix and digest < :beyond order by digest limit :limit;

-- name: artifact.claims
-- The claims of sessions on one artifact.
select {columns:artifact} from artifact where digest = :digest order by session_uid limit :limit;
