-- name: exemption.insert
-- Grant an exemption.
insert into exemption (id, rule, session_uid, repository, owner, tool, intent_digest, reason, granted_by, grantor,
    granted_at, approval_id, expires_at, uses, used, move_id)
values (:id, :rule, :session_uid, :repository, :owner, :tool, :intent_digest, :reason, :granted_by, :grantor,
    :now, :approval_id, :expires_at, :uses, 0, :move_id);

-- name: exemption.of_move
-- What a move has granted.
select {columns:exemption} from exemption where move_id = :move_id order by id limit :limit;

-- name: exemption.covering
-- Exemptions from a rule that cover a call: first those that count no uses, then those that end first. With `given`,
-- only those that were granted for the rule, and not remembered with an approval.
select {columns:exemption} from exemption
where rule = :rule and revoked_at is null and (expires_at is null or expires_at > :now)
    and (uses is null or used < uses) and (session_uid is null or session_uid = :uid)
    and (repository is null or repository = cast(:repository as text))
    and (owner is null or owner = cast(:owner as text)) and (tool is null or tool = :tool or tool = '*')
    and (intent_digest is null or intent_digest = :intent_digest)
    and (cast(:given as text) is null or approval_id is null)
order by case when uses is null then 0 else 1 end, coalesce(expires_at, 9223372036854775807), granted_at, id limit :limit;

-- name: exemption.used_by
-- The exemptions that an effect has used already.
select {columns:exemption} from exemption where id in (
    select exemption_id from exemption_use where session_uid = :uid and effect_id = :effect_id
)
order by id limit :limit;

-- name: exemption.insert_use
-- Record that an effect uses an exemption, once.
insert into exemption_use (session_uid, effect_id, exemption_id, at) values (:uid, :effect_id, :id, :now)
on conflict (session_uid, effect_id, exemption_id) do nothing;

-- name: exemption.count_use
-- Count a use, if the exemption still holds.
update exemption set used = used + 1
where id = :id and revoked_at is null and (expires_at is null or expires_at > :now) and (uses is null or used < uses);

-- name: exemption.revoke
-- Revoke an exemption, once.
update exemption set revoked_at = :now, revoked_by = :by, revoked_because = :because
where id = :id and revoked_at is null;

-- name: exemption.lock
-- Lock and read an exemption until the transaction ends.
select {columns:exemption} from exemption where id = :id {lock};

-- name: exemption.get
-- One exemption.
select {columns:exemption} from exemption where id = :id;

-- name: exemption.by_id
-- One exemption by its id, or by a prefix of it.
select {columns:exemption} from exemption where id >= :prefix and id < :beyond order by id limit :limit;

-- name: exemption.list
-- Exemptions, the newest first.
select {columns:exemption} from exemption
where (cast(:uid as text) is null or session_uid = :uid) and (cast(:rule as text) is null or rule = :rule)
    and (cast(:at_now as bigint) is null or (
        revoked_at is null and (expires_at is null or expires_at > :at_now) and (uses is null or used < uses)
    ))
order by granted_at desc, id desc limit :limit;

-- name: exemption.uses
-- The effects that used an exemption, the newest first.
select {columns:exemption_use} from exemption_use where exemption_id = :id
order by at desc, session_uid, effect_id limit :limit;
