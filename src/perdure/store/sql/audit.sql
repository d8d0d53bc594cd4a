-- name: audit.failed_runs
-- Effects that failed, with the state of their sessions, the newest first.
select effect.settled_at, session.id, session.status, effect.tool, effect.id, effect.error, session.owner,
    session.repository_id, effect.settled_at, effect.session_uid, effect.id
from effect {index:effect_failed} join session on session.uid = effect.session_uid
where effect.state = 'failed' and effect.settled_at >= :since
    and (effect.settled_at, effect.session_uid, effect.id) < (:until, :key_a, :key_b)
    and (cast(:tool as text) is null or effect.tool = :tool)
order by effect.settled_at desc, effect.session_uid desc, effect.id desc limit :limit;

-- name: audit.failed_sessions
-- Sessions that failed, the newest first.
select updated_at, id, program, error, coalesce(retries, 0), crash_count, owner, repository_id, updated_at, uid
from session {index:session_ended_badly}
where status = 'failed' and updated_at >= :since and (updated_at, uid) < (:until, :key_a)
    and (cast(:owner as text) is null or owner = :owner)
order by updated_at desc, uid desc limit :limit;

-- name: audit.waiting
-- What keeps sessions from continuing until a person acts, the longest wait first (`domain.wait.needs_person`).
select wait.since, session.id, wait.kind, session.title, session.owner, session.repository_id, wait.id, wait.since,
    wait.session_uid, wait.id
from wait {index:wait_open} join session on session.uid = wait.session_uid
where wait.kind in ({for_a_person}) and wait.resolved_at is null
    and not (wait.kind = 'input' and wait.ref is null and wait.detail is null)
    and wait.since < :until and (wait.since, wait.session_uid, wait.id) > (:since, :key_a, :key_b)
    and (cast(:kind as text) is null or wait.kind = :kind)
order by wait.since, wait.session_uid, wait.id limit :limit;

-- name: audit.retries
-- Repositories by how often their sessions were retried and their effects repeated.
with again (session_uid, retries, repeats, at) as (
    select event.session_uid, 1, 0, event.at from event {index:event_of_incident}
    where {incident} and event.kind = 'session.retried' and event.at >= :since and event.at < :until
    union all
    select attempt.session_uid, 0, 1, attempt.dispatched_at from attempt {index:attempt_repeated}
    where attempt.number > 1 and attempt.dispatched_at >= :since and attempt.dispatched_at < :until
)
select coalesce(session.repository_id, session.repository, '') as place, cast(sum(again.retries) as bigint),
    cast(sum(again.repeats) as bigint), count(distinct again.session_uid), max(again.at),
    count(*) as total, coalesce(session.repository_id, session.repository, '') as page
from again join session on session.uid = again.session_uid
group by coalesce(session.repository_id, session.repository, '')
having (count(*), coalesce(session.repository_id, session.repository, '')) < (:count, :key_a)
order by total desc, page desc limit :limit;

-- name: audit.exemptions
-- Exemptions that were granted, the newest first.
select exemption.granted_at, exemption.id, exemption.rule, session.id, exemption.repository, exemption.owner,
    exemption.tool, exemption.granted_by, exemption.grantor, exemption.reason, exemption.used, exemption.uses,
    exemption.expires_at, exemption.revoked_at, exemption.revoked_by, exemption.granted_at, exemption.id
from exemption {index:exemption_by_time} left join session on session.uid = exemption.session_uid
where exemption.granted_at >= :since and (exemption.granted_at, exemption.id) < (:until, :key_a)
    and (cast(:rule as text) is null or exemption.rule = :rule)
    and (cast(:person as text) is null or exemption.granted_by = :person or exemption.grantor = :person)
order by exemption.granted_at desc, exemption.id desc limit :limit;

-- name: audit.targets
-- What touched exactly one target, the newest first.
select effect_target.at, session.id, effect_target.target, effect.tool, effect.id, effect.reach, effect.state,
    effect.reference, session.owner, effect_target.at, effect_target.session_uid, effect_target.effect_id
from effect_target {index:effect_target_by_name}
join effect on effect.session_uid = effect_target.session_uid and effect.id = effect_target.effect_id
join session on session.uid = effect_target.session_uid
where effect_target.target = :target and effect_target.at >= :since
    and (effect_target.at, effect_target.session_uid, effect_target.effect_id) < (:until, :key_a, :key_b)
order by effect_target.at desc, effect_target.session_uid desc, effect_target.effect_id desc limit :limit;

-- name: audit.targets_in_range
-- What touched targets with a prefix in a time, the newest first: through the effects of that time, found first. `|| ''`
-- keeps the planner from reading everything that ever had the prefix.
with recent as materialized (
    select session_uid, id, tool, reach, state, reference, planned_at from effect {index:effect_by_time}
    where planned_at >= :since and planned_at <= :until
)
select recent.planned_at, session.id, effect_target.target, recent.tool, recent.id, recent.reach, recent.state,
    recent.reference, session.owner, recent.planned_at, recent.id, recent.session_uid, effect_target.target
from recent cross join effect_target cross join session
where effect_target.session_uid = recent.session_uid and effect_target.effect_id = recent.id
    and effect_target.target || '' >= :target and effect_target.target || '' < :beyond
    and session.uid = recent.session_uid
    and (recent.planned_at, recent.id, recent.session_uid, effect_target.target) < (:until, :key_a, :key_b, :key_c)
order by recent.planned_at desc, recent.id desc, recent.session_uid desc, effect_target.target desc limit :limit;

-- name: audit.targets_with_prefix
-- What ever touched targets with a prefix, the newest first: through the targets.
select effect_target.at, session.id, effect_target.target, effect.tool, effect.id, effect.reach, effect.state,
    effect.reference, session.owner, effect_target.at, effect_target.effect_id, effect_target.session_uid,
    effect_target.target
from effect_target {index:effect_target_by_name}
join effect on effect.session_uid = effect_target.session_uid and effect.id = effect_target.effect_id
join session on session.uid = effect_target.session_uid
where effect_target.target >= :target and effect_target.target < :beyond and effect_target.at >= :since
    and (effect_target.at, effect_target.effect_id, effect_target.session_uid, effect_target.target)
        < (:until, :key_a, :key_b, :key_c)
order by effect_target.at desc, effect_target.effect_id desc, effect_target.session_uid desc,
    effect_target.target desc limit :limit;

-- name: audit.approvals
-- Approvals that were requested, a row for each vote, the newest first.
select approval.asked_at, session.id, approval.id, effect.tool, effect.id, approval.gate, approval.requester,
    coalesce(approval.decision, case when approval.withdrawn_at is null then 'waiting' else 'withdrawn' end),
    vote.decision, vote.voter, vote.identity, vote.rationale, approval.decided_at, approval.asked_at,
    approval.session_uid, approval.id, coalesce(vote.voter, '')
from approval {index:approval_by_time}
join session on session.uid = approval.session_uid
join effect on effect.session_uid = approval.session_uid and effect.id = approval.effect_id
left join vote on vote.session_uid = approval.session_uid and vote.approval_id = approval.id
where approval.asked_at >= :since and approval.asked_at <= :until
    and (approval.asked_at, approval.session_uid, approval.id, coalesce(vote.voter, '')) < (:until, :key_a, :key_b, :key_c)
    and (cast(:person as text) is null or vote.voter = :person or vote.identity = :person)
order by approval.asked_at desc, approval.session_uid desc, approval.id desc, coalesce(vote.voter, '') desc limit :limit;

-- name: audit.who_approved
-- By what each effect of a session was allowed, a row for each vote and exemption, the newest first.
select effect.planned_at, session.id, effect.id, effect.tool, effect.targets, effect.state, effect.policy_version,
    effect.rule, exemption.id, exemption.granted_by, approval.id, approval.decision, vote.voter, vote.identity,
    vote.rationale, effect.number, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '')
from effect {index:effect_by_number} join session on session.uid = effect.session_uid
left join exemption_use on exemption_use.session_uid = effect.session_uid and exemption_use.effect_id = effect.id
left join exemption on exemption.id = exemption_use.exemption_id
left join approval on approval.session_uid = effect.session_uid and approval.id = effect.approval_id
left join vote on vote.session_uid = approval.session_uid and vote.approval_id = approval.id
where effect.session_uid = :session and effect.planned_at >= :since and effect.planned_at < :until
    and coalesce(effect.reach, 'outside') not in ('none', 'model')
    and (effect.number, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '')) < (:count, :key_a)
order by effect.number desc, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '') desc limit :limit;

-- name: audit.who_approved_since
-- By what each effect of a session in a time was allowed, a row for each vote and exemption, the newest first: through
-- the effects of that time, found first.
with recent as materialized (
    select session_uid, id from effect {index:effect_by_time}
    where planned_at >= :since and planned_at <= :until and session_uid || '' = :session
)
select effect.planned_at, session.id, effect.id, effect.tool, effect.targets, effect.state, effect.policy_version,
    effect.rule, exemption.id, exemption.granted_by, approval.id, approval.decision, vote.voter, vote.identity,
    vote.rationale, effect.number, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '')
from recent cross join effect cross join session
left join exemption_use on exemption_use.session_uid = effect.session_uid and exemption_use.effect_id = effect.id
left join exemption on exemption.id = exemption_use.exemption_id
left join approval on approval.session_uid = effect.session_uid and approval.id = effect.approval_id
left join vote on vote.session_uid = approval.session_uid and vote.approval_id = approval.id
where effect.session_uid = recent.session_uid and effect.id = recent.id and session.uid = recent.session_uid
    and coalesce(effect.reach, 'outside') not in ('none', 'model') and effect.planned_at < :until
    and (effect.number, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '')) < (:count, :key_a)
order by effect.number desc, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '') desc limit :limit;

-- name: audit.who_approved_effect
-- By what one effect was allowed, a row for each vote and exemption.
select effect.planned_at, session.id, effect.id, effect.tool, effect.targets, effect.state, effect.policy_version,
    effect.rule, exemption.id, exemption.granted_by, approval.id, approval.decision, vote.voter, vote.identity,
    vote.rationale, effect.session_uid, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '')
from effect {index:effect_by_id} join session on session.uid = effect.session_uid
left join exemption_use on exemption_use.session_uid = effect.session_uid and exemption_use.effect_id = effect.id
left join exemption on exemption.id = exemption_use.exemption_id
left join approval on approval.session_uid = effect.session_uid and approval.id = effect.approval_id
left join vote on vote.session_uid = approval.session_uid and vote.approval_id = approval.id
where effect.id = :effect and (effect.session_uid, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '')) > (:key_a, :key_b)
order by effect.session_uid, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '') limit :limit;

-- name: audit.who_approved_target
-- By what each effect on a target was allowed, a row for each vote and exemption, the newest first.
select effect.planned_at, session.id, effect.id, effect.tool, effect.targets, effect.state, effect.policy_version,
    effect.rule, exemption.id, exemption.granted_by, approval.id, approval.decision, vote.voter, vote.identity,
    vote.rationale, effect.planned_at, effect.id, effect.session_uid, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '')
from (
    select distinct session_uid, effect_id from effect_target {index:effect_target_by_name}
    where target = :target and at >= :since and at <= :until
) as touched
join effect on effect.session_uid = touched.session_uid and effect.id = touched.effect_id
join session on session.uid = effect.session_uid
left join exemption_use on exemption_use.session_uid = effect.session_uid and exemption_use.effect_id = effect.id
left join exemption on exemption.id = exemption_use.exemption_id
left join approval on approval.session_uid = effect.session_uid and approval.id = effect.approval_id
left join vote on vote.session_uid = approval.session_uid and vote.approval_id = approval.id
where (effect.planned_at, effect.id, effect.session_uid, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '')) < (:until, :key_a, :key_b, :key_c)
order by effect.planned_at desc, effect.id desc, effect.session_uid desc, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '') desc limit :limit;

-- name: audit.who_approved_in_range
-- By what each effect on targets with a prefix in a time was allowed, a row for each vote and exemption, the newest first:
-- through the effects of that time, found first.
with recent as materialized (
    select session_uid, id from effect {index:effect_by_time} where planned_at >= :since and planned_at <= :until
), touched as materialized (
    select distinct recent.session_uid, recent.id as effect_id from recent cross join effect_target
    where effect_target.session_uid = recent.session_uid and effect_target.effect_id = recent.id
        and effect_target.target || '' >= :target and effect_target.target || '' < :beyond
)
select effect.planned_at, session.id, effect.id, effect.tool, effect.targets, effect.state, effect.policy_version,
    effect.rule, exemption.id, exemption.granted_by, approval.id, approval.decision, vote.voter, vote.identity,
    vote.rationale, effect.planned_at, effect.id, effect.session_uid, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '')
from touched
join effect on effect.session_uid = touched.session_uid and effect.id = touched.effect_id
join session on session.uid = effect.session_uid
left join exemption_use on exemption_use.session_uid = effect.session_uid and exemption_use.effect_id = effect.id
left join exemption on exemption.id = exemption_use.exemption_id
left join approval on approval.session_uid = effect.session_uid and approval.id = effect.approval_id
left join vote on vote.session_uid = approval.session_uid and vote.approval_id = approval.id
where (effect.planned_at, effect.id, effect.session_uid, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '')) < (:until, :key_a, :key_b, :key_c)
order by effect.planned_at desc, effect.id desc, effect.session_uid desc, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '') desc limit :limit;

-- name: audit.who_approved_prefix
-- By what each effect on targets with a prefix was allowed, a row for each vote and exemption, the newest first.
select effect.planned_at, session.id, effect.id, effect.tool, effect.targets, effect.state, effect.policy_version,
    effect.rule, exemption.id, exemption.granted_by, approval.id, approval.decision, vote.voter, vote.identity,
    vote.rationale, effect.planned_at, effect.id, effect.session_uid, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '')
from (
    select distinct session_uid, effect_id from effect_target {index:effect_target_by_name}
    where target >= :target and target < :beyond and at >= :since and at <= :until
) as touched
join effect on effect.session_uid = touched.session_uid and effect.id = touched.effect_id
join session on session.uid = effect.session_uid
left join exemption_use on exemption_use.session_uid = effect.session_uid and exemption_use.effect_id = effect.id
left join exemption on exemption.id = exemption_use.exemption_id
left join approval on approval.session_uid = effect.session_uid and approval.id = effect.approval_id
left join vote on vote.session_uid = approval.session_uid and vote.approval_id = approval.id
where (effect.planned_at, effect.id, effect.session_uid, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '')) < (:until, :key_a, :key_b, :key_c)
order by effect.planned_at desc, effect.id desc, effect.session_uid desc, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '') desc limit :limit;

-- name: audit.who_approved_commit
-- By what each effect of a commit was allowed, a row for each vote and exemption: the effects after the session's commit before it.
with made (session_uid, number) as (
    select session_uid, number from effect {index:effect_of_commit}
    where tool = 'git_commit' and reference >= :commit and reference < :after_commit
), batch (session_uid, first, last) as (
    select made.session_uid, coalesce((
        select max(earlier.number) from effect as earlier
        where earlier.session_uid = made.session_uid and earlier.number < made.number
            and earlier.tool = 'git_commit' and earlier.state = 'acknowledged'
    ), 0), made.number
    from made
)
select effect.planned_at, session.id, effect.id, effect.tool, effect.targets, effect.state, effect.policy_version,
    effect.rule, exemption.id, exemption.granted_by, approval.id, approval.decision, vote.voter, vote.identity,
    vote.rationale, effect.session_uid, effect.number, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '')
from batch cross join effect {index:effect_by_number} cross join session
left join exemption_use on exemption_use.session_uid = effect.session_uid and exemption_use.effect_id = effect.id
left join exemption on exemption.id = exemption_use.exemption_id
left join approval on approval.session_uid = effect.session_uid and approval.id = effect.approval_id
left join vote on vote.session_uid = approval.session_uid and vote.approval_id = approval.id
where effect.session_uid = batch.session_uid and effect.number > batch.first and effect.number <= batch.last
    and session.uid = effect.session_uid and coalesce(effect.reach, 'outside') not in ('none', 'model')
    and (effect.session_uid, effect.number, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '')) > (:key_a, :number, :key_b)
order by effect.session_uid, effect.number, coalesce(vote.voter, '') || ' ' || coalesce(exemption.id, '') limit :limit;

-- name: audit.doubts
-- Effects whose outcome is unknown, the longest doubt first.
select effect.doubted_at, session.id, effect.id, effect.tool, effect.targets, effect.doubt, session.owner,
    effect.doubted_at, effect.session_uid, effect.id
from effect {index:effect_in_doubt} join session on session.uid = effect.session_uid
where effect.doubted_at is not null and effect.state = 'dispatched' and effect.doubted_at < :until
    and (effect.doubted_at, effect.session_uid, effect.id) > (:since, :key_a, :key_b)
order by effect.doubted_at, effect.session_uid, effect.id limit :limit;

-- name: audit.repeated
-- Attempts after the first one, with the outcome before and why the effect was dispatched again, the newest first.
select attempt.dispatched_at, session.id, effect.id, effect.tool, effect.replay, attempt.number, attempt.worker,
    earlier.outcome, earlier.error, (
        select event.body from event {index:event_of_recovery}
        where event.session_uid = attempt.session_uid and event.effect_id = attempt.effect_id
            and event.kind = 'effect.recovered' and event.at <= attempt.dispatched_at
        order by event.number desc limit 1
    ), attempt.outcome, attempt.dispatched_at, attempt.session_uid, attempt.effect_id, attempt.number
from attempt {index:attempt_repeated}
join effect on effect.session_uid = attempt.session_uid and effect.id = attempt.effect_id
join session on session.uid = attempt.session_uid
left join attempt as earlier on earlier.session_uid = attempt.session_uid
    and earlier.effect_id = attempt.effect_id and earlier.number = attempt.number - 1
where attempt.number > 1 and attempt.dispatched_at >= :since
    and (attempt.dispatched_at, attempt.session_uid, attempt.effect_id, attempt.number)
        < (:until, :key_a, :key_b, :number)
    and (cast(:tool as text) is null or effect.tool = :tool)
order by attempt.dispatched_at desc, attempt.session_uid desc, attempt.effect_id desc, attempt.number desc limit :limit;

-- name: audit.inherited
-- What a session took over: effects of the sessions that it was forked from, and effects that its recoveries decided.
with recursive line (uid, through) as (
    select forked_from, forked_at from session where uid = :session and forked_from is not null
    union all
    select session.forked_from, session.forked_at from session join line on session.uid = line.uid
    where session.forked_from is not null
), taken (how, at, session_uid, effect_id, was, body, number) as (
    select 'fork', effect.planned_at, effect.session_uid, effect.id,
        case when effect.settled_number is null or effect.settled_number > line.through then 'unsettled' else 'settled' end,
        null, effect.number
    from line join effect {index:effect_by_number} on effect.session_uid = line.uid and effect.number <= line.through
    union all
    select 'resume', event.at, event.session_uid, event.effect_id, 'unsettled', event.body, event.number
    from event {index:event_of_recovery}
    where event.session_uid = :session and event.kind = 'effect.recovered'
)
select taken.at, taken.how, session.id, effect.id, effect.tool, effect.reach, taken.was, effect.state,
    effect.reference, taken.body, taken.at, taken.session_uid, taken.number
from taken cross join effect cross join session
where effect.session_uid = taken.session_uid and effect.id = taken.effect_id and session.uid = taken.session_uid
    and taken.at < :until and (taken.at, taken.session_uid, taken.number) > (:since, :key_a, :number)
order by taken.at, taken.session_uid, taken.number limit :limit;

-- name: audit.refused
-- Calls that were not allowed, the newest first.
select effect.settled_at, session.id, effect.id, effect.tool, effect.targets, effect.rule, effect.policy_version,
    effect.error, session.owner, effect.settled_at, effect.session_uid, effect.id
from effect {index:effect_refused} join session on session.uid = effect.session_uid
where effect.state = 'refused' and effect.settled_at >= :since
    and (effect.settled_at, effect.session_uid, effect.id) < (:until, :key_a, :key_b)
    and (cast(:rule as text) is null or effect.rule = :rule)
order by effect.settled_at desc, effect.session_uid desc, effect.id desc limit :limit;

-- name: audit.controls
-- Controls by how often they fired, and what they caught: rules and budgets that refused, gates that
-- asked, rules that were lifted, waits for a budget or the policy.
with fired (control, refused, approved, denied, expired, waiting, lifted, at) as (
    select coalesce(effect.rule, ''), 1, 0, 0, 0, 0, 0, effect.settled_at from effect {index:effect_refused}
    where effect.state = 'refused' and effect.approval_id is null
        and effect.settled_at >= :since and effect.settled_at < :until
    union all
    select approval.gate, 0, case when decision = 'approved' then 1 else 0 end,
        case when decision = 'denied' then 1 else 0 end, case when decision = 'expired' then 1 else 0 end,
        case when decision is null and withdrawn_at is null then 1 else 0 end, 0, approval.asked_at
    from approval {index:approval_by_time} where approval.asked_at >= :since and approval.asked_at < :until
    union all
    select exemption.rule, 0, 0, 0, 0, 0, 1, effect.planned_at from effect {index:effect_by_time}
    join exemption_use on exemption_use.session_uid = effect.session_uid and exemption_use.effect_id = effect.id
    join exemption on exemption.id = exemption_use.exemption_id
    where effect.planned_at >= :since and effect.planned_at < :until
    union all
    select case when wait.kind = 'budget' then wait.ref else 'policy' end, 0, 0, 0, 0,
        case when wait.resolved_at is null then 1 else 0 end, 0, wait.since
    from wait {index:wait_of_control}
    where wait.kind in ('budget', 'policy') and wait.since >= :since and wait.since < :until
)
select control, count(*) as total, cast(sum(refused) as bigint), cast(sum(approved) as bigint),
    cast(sum(denied) as bigint), cast(sum(expired) as bigint), cast(sum(waiting) as bigint),
    cast(sum(lifted) as bigint), max(at), count(*), control
from fired group by control having (count(*), control) < (:count, :key_a)
order by total desc, control desc limit :limit;

-- name: audit.incidents
-- What went wrong and what was done about it, the newest first.
with incident (at, session_uid, what, effect_id, actor, body, number) as (
    select event.at, event.session_uid, event.kind, event.effect_id, event.actor, event.body, event.number
    from event {index:event_of_incident}
    where {incident} and event.kind not in ('session.removed', 'event.erased')
        and event.at >= :since and event.at <= :until
    union all
    select effect.settled_at, effect.session_uid, 'effect.failed', effect.id, '', effect.error, effect.settled_number
    from effect {index:effect_failed}
    where effect.state = 'failed' and effect.settled_at >= :since and effect.settled_at <= :until
)
select incident.at, session.id, incident.what, effect.id, effect.tool, incident.actor, incident.body, effect.state,
    effect.verdict, effect.verdict_by, session.status, incident.at, incident.session_uid,
    coalesce(incident.number, 0)
from incident join session on session.uid = incident.session_uid
left join effect on effect.session_uid = incident.session_uid and effect.id = incident.effect_id
where (incident.at, incident.session_uid, coalesce(incident.number, 0)) < (:until, :key_a, :number)
order by incident.at desc, incident.session_uid desc, coalesce(incident.number, 0) desc limit :limit;

-- name: audit.verdicts
-- What people said of effects in doubt, the newest first.
select event.at, session.id, event.effect_id, effect.tool, event.body, event.actor, event.body, event.body, effect.state, event.at,
    event.session_uid, event.number
from event {index:event_of_incident} join session on session.uid = event.session_uid
left join effect on effect.session_uid = event.session_uid and effect.id = event.effect_id
where {incident} and event.kind = 'effect.settled' and event.at >= :since
    and (event.at, event.session_uid, event.number) < (:until, :key_a, :number)
    and (cast(:person as text) is null or event.actor = :person)
order by event.at desc, event.session_uid desc, event.number desc limit :limit;

-- name: audit.removals
-- Sessions that were removed and events that were erased, the newest first.
select event.at, session.id, event.kind, event.actor, event.body, event.body, event.at, event.session_uid, event.number
from event {index:event_of_incident} join session on session.uid = event.session_uid
where {incident} and event.kind in ('session.removed', 'event.erased') and event.at >= :since
    and (event.at, event.session_uid, event.number) < (:until, :key_a, :number)
order by event.at desc, event.session_uid desc, event.number desc limit :limit;

-- name: audit.costs
-- What models cost by day, owner and model, the newest day first.
select day, coalesce(owner, '') as spender, model, count(distinct session_uid), cast(sum(calls) as bigint),
    cast(sum(tokens_in) as bigint), cast(sum(tokens_out) as bigint), cast(sum(cost_micros) as bigint),
    day, coalesce(owner, ''), model
from model_usage
where day >= :day and day <= :until
    and (cast(:owner as text) is null or owner = :owner) and (cast(:model as text) is null or model = :model)
group by day, coalesce(owner, ''), model
having (day, coalesce(owner, ''), model) < (:until, :key_a, :key_b)
order by day desc, coalesce(owner, '') desc, model desc limit :limit;

-- name: audit.access
-- Who read or exported what, the newest first.
select access.at, access.identity, access.action, session.id, access.subject, access.detail, access.at, access.id
from access {index:access_by_time} left join session on session.uid = access.session_uid
where access.at >= :since and (access.at, access.id) < (:until, :key_a)
    and (cast(:person as text) is null or access.identity = :person)
    and (cast(:action as text) is null or access.action = :action)
order by access.at desc, access.id desc limit :limit;

-- name: audit.access_of_session
-- Who read or exported one session, the newest first.
select access.at, access.identity, access.action, session.id, access.subject, access.detail, access.at, access.id
from access {index:access_of_session} join session on session.uid = access.session_uid
where access.session_uid = :session and access.at >= :since and (access.at, access.id) < (:until, :key_a)
    and (cast(:person as text) is null or access.identity = :person)
    and (cast(:action as text) is null or access.action = :action)
order by access.at desc, access.id desc limit :limit;

-- name: audit.changes
-- Changes of the store from the control log, the newest first.
select at, number, kind, actor, body, body, at, number
from control_event {index:control_event_by_time}
where at >= :since and (at, number) < (:until, :number)
    and (cast(:kind as text) is null or kind = :kind) and (cast(:person as text) is null or actor = :person)
order by at desc, number desc limit :limit;

-- name: audit.outside
-- The ledger of actions that left the machine or may have, the newest first.
select effect.planned_at, session.id, effect.id, effect.tool, effect.targets, effect.state, effect.reference,
    effect.idempotency_key, effect.rule, effect.approval_id, session.owner, effect.planned_at, effect.id, effect.session_uid
from effect {index:effect_by_time} join session on session.uid = effect.session_uid
where effect.planned_at >= :since and (effect.planned_at, effect.id, effect.session_uid) < (:until, :key_a, :key_b)
    and coalesce(effect.reach, 'outside') = 'outside' and effect.state not in ('planned', 'refused')
    and (cast(:tool as text) is null or effect.tool = :tool)
order by effect.planned_at desc, effect.id desc, effect.session_uid desc limit :limit;

-- name: audit.reach
-- How far effects reached, by their state.
select coalesce(reach, 'outside') as far, state, count(*), coalesce(reach, 'outside'), state
from effect {index:effect_by_time}
where planned_at >= :since and planned_at < :until
group by coalesce(reach, 'outside'), state
having (coalesce(reach, 'outside'), state) > (:key_a, :key_b)
order by coalesce(reach, 'outside'), state limit :limit;

-- name: audit.session_ends
-- The end of the log of every session, also of removed ones, by uid.
select uid, cursor, chain from session where uid > :after order by uid limit :limit;

-- name: audit.session_end
-- The name and the end of the log of one session.
select id, cursor, chain from session where uid = :uid;
