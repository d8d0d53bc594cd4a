-- name: approval.insert
-- Request approval of one exact intent.
insert into approval (session_uid, id, effect_id, gate, intent_digest, requester, requester_may_decide, quorum,
    expires_at, asked_at, conditions, requested_by, escalate_at)
values (:uid, :id, :effect_id, :gate, :intent_digest, :requester, :requester_may_decide, :quorum, :expires_at, :now,
    :conditions, :requested_by, :escalate_at);

-- name: approval.decide
-- Decide an approval, once.
update approval set decision = :decision, decided_at = :now
where session_uid = :uid and id = :id and decision is null;

-- name: approval.consume
-- Use an approval for the one effect whose intent it is bound to; its later attempts may use it again.
update approval set consumed_by = :effect_id
where session_uid = :uid and id = :id and decision = 'approved' and effect_id = :effect_id
    and intent_digest = :intent_digest and withdrawn_at is null and (consumed_by is null or consumed_by = :effect_id);

-- name: approval.get
-- One approval of a session.
select {columns:approval} from approval where session_uid = :uid and id = :id;

-- name: approval.by_id
-- One approval by its id or a prefix of it, of one session or of any.
select {columns:approval} from approval where id >= :prefix and id < :beyond
    and (cast(:uid as text) is null or session_uid = :uid)
order by id, session_uid limit :limit;

-- name: approval.list
-- Approvals by an operator's filters; undecided ones first, the oldest at the top.
select {columns:approval} from approval
where (cast(:uid as text) is null or session_uid = :uid)
    and (cast(:decision as text) is null or decision = :decision or (decision is null and :decision = 'waiting'))
order by case when decision is null then 0 else 1 end, asked_at, id limit :limit;

-- name: approval.page_waiting
-- Approvals that are not decided, the oldest first, after one of them; with the queue and the repository of their sessions.
select {columns:approval}, (select queue from session where session.uid = approval.session_uid),
    (select repository_id from session where session.uid = approval.session_uid)
from approval
where decision is null and (asked_at, session_uid, id) > (:asked_at, :session_uid, :id)
    and (cast(:uid as text) is null or session_uid = :uid)
order by asked_at, session_uid, id limit :limit;

-- name: approval.page_decided
-- Approvals that are decided, the same way.
select {columns:approval}, (select queue from session where session.uid = approval.session_uid),
    (select repository_id from session where session.uid = approval.session_uid)
from approval
where decision is not null and (asked_at, session_uid, id) > (:asked_at, :session_uid, :id)
    and (cast(:uid as text) is null or session_uid = :uid)
    and (cast(:decision as text) is null or decision = :decision)
order by asked_at, session_uid, id limit :limit;

-- name: approval.withdraw
-- Withdraw an approval that was not used: it allows nothing any more.
update approval set withdrawn_at = :now, withdrawn_by = :by, withdrawn_because = :because
where session_uid = :uid and id = :id and consumed_by is null and withdrawn_at is null;

-- name: approval.escalate
-- Ask more people, once.
update approval set escalated_at = :now
where session_uid = :uid and id = :id and escalated_at is null and decision is null;

-- name: approval.to_escalate
-- Undecided approvals that more people are asked about, by time.
select session_uid, id, escalate_at from approval
where escalate_at is not null and escalated_at is null and decision is null order by escalate_at limit :limit;
