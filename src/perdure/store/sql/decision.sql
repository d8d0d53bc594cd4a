-- name: decision.insert
-- Record a decision and its reason.
insert into decision (session_uid, id, decision, rationale, planned_action, decided_at)
values (:uid, :id, :decision, :rationale, :planned_action, :now)
on conflict (session_uid, id) do nothing;

-- name: decision.settle
-- Record the outcome of a decision, once.
update decision set outcome = :outcome, settled_at = :now
where session_uid = :uid and id = :id and outcome is null;

-- name: decision.get
-- One decision.
select {columns:decision} from decision where session_uid = :uid and id = :id;

-- name: decision.list
-- Decisions, the newest first.
select {columns:decision} from decision
where (cast(:uid as text) is null or session_uid = :uid)
order by decided_at desc, id desc limit :limit;

-- name: decision.incomplete
-- Decisions without an outcome, the oldest first.
select {columns:decision} from decision
where outcome is null and (cast(:uid as text) is null or session_uid = :uid)
order by decided_at, id limit :limit;

-- name: decision.page
-- Decisions, the newest first, after one of them; with the queue and the repository of their sessions.
select {columns:decision}, (select queue from session where session.uid = decision.session_uid),
    (select repository_id from session where session.uid = decision.session_uid)
from decision
where decided_at <= :decided_at and (decided_at < :decided_at or (session_uid, id) > (:session_uid, :id))
    and (cast(:uid as text) is null or session_uid = :uid)
    and (cast(:incomplete as text) is null or outcome is null)
order by decided_at desc, session_uid, id limit :limit;
