-- name: removal.counts
-- What the removal of a session forgets: effects, messages, and artifacts that no other session has, with their bytes.
select (select count(*) from effect where session_uid = :uid), (select count(*) from inbox where session_uid = :uid),
    count(*), coalesce(sum(size), 0)
from artifact as own
where session_uid = :uid and not exists (
    select 1 from artifact as other where other.digest = own.digest and other.session_uid <> :uid
);

-- name: removal.dependents
-- Sessions that need the record of a session: its branches and its children.
select id from session where (forked_from = :uid or parent_uid = :uid) and removed_at is null order by id limit :limit;

-- name: removal.vote
-- Forget the votes of a removed session.
delete from vote where session_uid = :uid;

-- name: removal.attempt
-- Forget its attempts.
delete from attempt where session_uid = :uid;

-- name: removal.approval
-- Forget its approvals.
delete from approval where session_uid = :uid;

-- name: removal.effect
-- Forget its effects.
delete from effect where session_uid = :uid;

-- name: removal.inbox
-- Forget its messages.
delete from inbox where session_uid = :uid;

-- name: removal.wait
-- Forget its waits.
delete from wait where session_uid = :uid;

-- name: removal.step
-- Forget its steps.
delete from step where session_uid = :uid;

-- name: removal.task
-- Forget its plan.
delete from task where session_uid = :uid;

-- name: removal.decision
-- Forget its decisions.
delete from decision where session_uid = :uid;

-- name: removal.checkpoint
-- Forget its checkpoints.
delete from checkpoint where session_uid = :uid;

-- name: removal.artifact
-- Forget which artifacts it has.
delete from artifact where session_uid = :uid;

-- name: removal.fact
-- Forget its private facts.
delete from fact where scope = :scope;

-- name: removal.shared_fact
-- A shared fact stays, and no longer names the session that wrote it.
update fact set session_uid = null where session_uid = :uid;

-- name: removal.event
-- Erase what its events say; their digests and the chain stay.
update event set body = null, salt = null where session_uid = :uid and body is not null;

-- name: removal.notification
-- Forget what people were told about it.
delete from notification where session_uid = :uid;
