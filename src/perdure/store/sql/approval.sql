-- name: approval.insert
-- Request approval of one exact intent.
insert into approval (session_uid, id, effect_id, gate, intent_digest, requester, requester_may_decide, quorum,
    expires_at, asked_at)
values (:uid, :id, :effect_id, :gate, :intent_digest, :requester, :requester_may_decide, :quorum, :expires_at, :now);

-- name: approval.decide
-- Decide an approval, once.
update approval set decision = :decision, decided_at = :now
where session_uid = :uid and id = :id and decision is null;

-- name: approval.consume
-- Use an approval for the one effect whose intent it is bound to; its later attempts may use it again.
update approval set consumed_by = :effect_id
where session_uid = :uid and id = :id and decision = 'approved' and effect_id = :effect_id
    and intent_digest = :intent_digest and (consumed_by is null or consumed_by = :effect_id);

-- name: approval.get
-- One approval of a session.
select {columns:approval} from approval where session_uid = :uid and id = :id;

-- name: approval.by_id
-- One approval by its id, or by a prefix of it.
select {columns:approval} from approval where id >= :prefix and id < :beyond order by id, session_uid limit :limit;

-- name: approval.list
-- Approvals by an operator's filters; undecided ones first, the oldest at the top.
select {columns:approval} from approval
where (cast(:uid as text) is null or session_uid = :uid)
    and (cast(:decision as text) is null or decision = :decision or (decision is null and :decision = 'waiting'))
order by case when decision is null then 0 else 1 end, asked_at, id limit :limit;
