-- name: lease.lock
-- Lock and read a named resource's lease.
select {columns:lease} from lease where resource = :resource {lock};

-- name: lease.get
-- A named resource's lease, without locking it.
select {columns:lease} from lease where resource = :resource;

-- name: lease.insert
-- Insert the first lease of a resource; nothing if there is one already.
insert into lease (resource, holder, nonce, epoch, until) values (:resource, :holder, :nonce, :epoch, :until)
on conflict (resource) do nothing;

-- name: lease.take
-- Give the resource to a holder.
update lease set holder = :holder, nonce = :nonce, epoch = :epoch, until = :until where resource = :resource;

-- name: lease.renew
-- Prolong the lease of the holder that still has it.
update lease set until = :until where resource = :resource and epoch = :epoch and nonce = :nonce;

-- name: lease.release
-- Give the resource back; the epoch stays.
update lease set holder = null, nonce = null, until = null
where resource = :resource and epoch = :epoch and nonce = :nonce;

-- name: lease.settle
-- Give back what an effect needed.
update lease set holder = null, nonce = null, until = null
where resource = :resource and holder = :holder and nonce = :nonce;

-- name: lease.freed
-- Open waits for resources that are free, of sessions that are not sealed.
select {columns:wait} from wait where kind = 'lease' and resolved_at is null and not exists (
    select 1 from lease where lease.resource = wait.ref and lease.until >= :now
) and not exists (select 1 from session where session.uid = wait.session_uid and session.sealed_at is not null)
order by since, session_uid, id limit :limit;

-- name: lease.list
-- Leases of named resources.
select {columns:lease} from lease order by resource limit :limit;

-- name: lease.progress
-- Whether a holder made progress since an event, other than taking the lease or retrying what was tried before.
select 1 from event where session_uid = :uid and number > :after and actor = :holder and kind not in (
    'lease.acquired', 'lease.taken_over', 'effect.dispatched', 'effect.ended', 'effect.unknown', 'effect.absent',
    'effect.recovered'
)
limit 1;

-- name: lease.crashed_child
-- A child that ran in the same worker, and may have ended it.
select uid from session
where parent_uid = :uid and (status = 'running' or (status = 'ready' and suspected_at is not null)) limit 1;

-- name: lease.crash_record
-- How often in a row the session has lost its worker, whether its holder runs no other, and which code it began under.
select crash_count, lease_alone, code_version from session where uid = :uid;

-- name: lease.of_holder
-- The sessions that a holder holds.
select uid from session where status = 'running' and lease_holder = :holder and sealed_at is null
order by uid limit :limit;

-- name: lease.first_ends
-- The sessions whose leases end first; only their keys, so that a damaged value cannot break the query.
select uid, lease_until from session where status = 'running' and lease_until is not null and sealed_at is null
order by lease_until limit :limit;
