-- name: policy.fence
-- What every dispatch must match, and whether the policy is frozen.
select {columns:policy_fence} from policy_fence where one = 1;

-- name: policy.lock_fence
-- Lock and read the fence until the transaction ends.
select {columns:policy_fence} from policy_fence where one = 1 {lock};

-- name: policy.put_fence
-- Change what every dispatch must match.
update policy_fence set version = :version, fence = :fence, frozen_at = :frozen_at, frozen_by = :frozen_by,
    frozen_because = :frozen_because
where one = 1;

-- name: policy.exclude_dispatches@postgres
-- Wait until no dispatch is being committed, and keep others out until the transaction ends.
lock table attempt in share mode;

-- name: policy.limit_wait@postgres
-- How long a statement of this transaction waits for a lock: dispatches queue behind it meanwhile.
select set_config('lock_timeout', :limit, true);

-- name: policy.insert
-- Add a version.
insert into policy (version, digest, fence, source, activated_by, reason, activated_at, move_id)
values (:version, :digest, :fence, :source, :activated_by, :reason, :activated_at, :move_id);

-- name: policy.get
-- One version.
select {columns:policy} from policy where version = :version;

-- name: policy.newest
-- The newest version.
select {columns:policy} from policy order by version desc limit 1;

-- name: policy.active_at
-- The version that was active at a time.
select {columns:policy} from policy where activated_at <= :at order by version desc limit 1;

-- name: policy.of_move
-- The version that a move has written.
select {columns:policy} from policy where move_id = :move_id;

-- name: policy.list
-- Every version, the newest first.
select {columns:policy} from policy order by version desc limit :limit;
