-- Views for reports, with stable names and columns (docs/reference/views.md). They belong to the code and not to a
-- number: each migration removes them first and makes them again, so that they never stand in its way.
-- Times are timestamps (on SQLite: UTC as text), days are texts such as 2026-01-31, costs are millionths of a dollar.

drop view if exists perdure_exemption_uses;
drop view if exists perdure_exemptions;
drop view if exists perdure_control_events;
drop view if exists perdure_costs_by_day;
drop view if exists perdure_targets;
drop view if exists perdure_decisions;
drop view if exists perdure_waits;
drop view if exists perdure_votes;
drop view if exists perdure_approvals;
drop view if exists perdure_attempts;
drop view if exists perdure_effects;
drop view if exists perdure_sessions;

-- made
create view perdure_sessions as
select uid as session_uid, id as session_id, program, title, owner, repository, repository_id, branch, queue, priority, status, model,
    parent_uid, forked_from, cursor as events, tokens_in, tokens_out, cost_micros, crash_count, coalesce(retries, 0) as retries,
    {time:created_at}, {time:updated_at}, {time:waiting_since}, {time:archived_at}, {time:removed_at}
from session;

create view perdure_effects as
select session_uid, session.id as session_id, effect.id as effect_id, tool, replay, reach, effect.state, effect.reference,
    effect.targets, effect.task_id, effect.approval_id, effect.policy_version, effect.rule, effect.exemption_id,
    effect.verdict, effect.verdict_by, effect.verdict_because, session.owner, session.repository,
    {time:effect.planned_at}, {time:effect.settled_at}, {time:effect.doubted_at}
from effect join session on session.uid = effect.session_uid;

create view perdure_attempts as
select attempt.session_uid, session.id as session_id, attempt.effect_id, effect.tool, attempt.number, attempt.worker,
    attempt.sandbox, attempt.outcome, {time:attempt.dispatched_at}, {time:attempt.ended_at}, {time:attempt.settled_at},
    attempt.settled_at - attempt.dispatched_at as took_micros
from attempt join session on session.uid = attempt.session_uid
join effect on effect.session_uid = attempt.session_uid and effect.id = attempt.effect_id;

create view perdure_approvals as
select approval.session_uid, session.id as session_id, approval.id as approval_id, approval.effect_id, effect.tool,
    approval.gate, approval.requester, approval.quorum, coalesce(approval.decision, 'waiting') as decision,
    {time:approval.asked_at}, {time:approval.decided_at}, {time:approval.expires_at},
    approval.decided_at - approval.asked_at as waited_micros
from approval join session on session.uid = approval.session_uid
join effect on effect.session_uid = approval.session_uid and effect.id = approval.effect_id;

create view perdure_votes as
select vote.session_uid, session.id as session_id, vote.approval_id, vote.voter, vote.decision, vote.rationale,
    {time:vote.at}
from vote join session on session.uid = vote.session_uid;

create view perdure_waits as
select wait.session_uid, session.id as session_id, wait.id as wait_id, wait.kind, wait.ref, wait.resolved_by,
    {time:wait.since}, {time:wait.due_at}, {time:wait.resolved_at}, wait.resolved_at - wait.since as waited_micros
from wait join session on session.uid = wait.session_uid;

create view perdure_decisions as
select decision.session_uid, session.id as session_id, decision.id as decision_id, decision.decision,
    decision.rationale, decision.planned_action, decision.outcome, {time:decision.decided_at}, {time:decision.settled_at}
from decision join session on session.uid = decision.session_uid;

create view perdure_targets as
select effect_target.session_uid, session.id as session_id, effect_target.effect_id, effect_target.target, effect.tool,
    effect.reach, effect.state, session.owner, session.repository_id, {time:effect_target.at}
from effect_target join session on session.uid = effect_target.session_uid
join effect on effect.session_uid = effect_target.session_uid and effect.id = effect_target.effect_id;

create view perdure_costs_by_day as
select {day:model_usage.day} as day, coalesce(model_usage.owner, '') as owner, model_usage.model, session.repository_id,
    count(distinct model_usage.session_uid) as sessions, sum(calls) as calls, sum(model_usage.tokens_in) as tokens_in,
    sum(model_usage.tokens_out) as tokens_out, sum(model_usage.cost_micros) as cost_micros
from model_usage join session on session.uid = model_usage.session_uid
group by model_usage.day, coalesce(model_usage.owner, ''), model_usage.model, session.repository_id;

create view perdure_control_events as
select number, kind, actor, body, {time:at}
from control_event;

create view perdure_exemptions as
select exemption.id as exemption_id, exemption.rule, exemption.session_uid, session.id as session_id,
    exemption.repository as repository_id, exemption.owner, exemption.tool, exemption.reason, exemption.granted_by,
    exemption.grantor, exemption.approval_id, exemption.uses, exemption.used, exemption.revoked_by,
    {time:exemption.granted_at}, {time:exemption.expires_at}, {time:exemption.revoked_at}
from exemption left join session on session.uid = exemption.session_uid;

create view perdure_exemption_uses as
select exemption_use.exemption_id, exemption_use.session_uid, session.id as session_id, exemption_use.effect_id,
    exemption.rule, {time:exemption_use.at}
from exemption_use join session on session.uid = exemption_use.session_uid
join exemption on exemption.id = exemption_use.exemption_id;
