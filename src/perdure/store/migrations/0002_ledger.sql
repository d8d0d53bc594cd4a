-- phase: expand
-- compatible_from: 1
-- The effect ledger: what was intended, what was dispatched, what came of it, and who allowed it.

insert into event_kind (kind, meaning) values
    ('effect.planned', 'an action on the outside world is intended'),
    ('effect.dispatched', 'the action may be under way'),
    ('effect.acknowledged', 'the action happened'),
    ('effect.failed', 'the action is proven not to have happened'),
    ('effect.unknown', 'nobody can say what came of the action'),
    ('effect.absent', 'the action did not happen, as far as can be seen'),
    ('effect.refused', 'the action was not allowed'),
    ('effect.compensated', 'the action was undone'),
    ('effect.superseded', 'another action takes its place'),
    ('effect.doubted', 'a person is asked what came of the action'),
    ('effect.settled', 'a person said what came of the action'),
    ('effect.ended', 'the process that acted is known to have ended'),
    ('effect.late_outcome', 'an outcome came when it no longer counted'),
    ('effect.recovered', 'what recovery decided, and on what evidence'),
    ('approval.voted', 'a person voted'),
    ('approval.decided', 'the vote is decided'),
    ('session.forked', 'a branch begins here'),
    ('child.started', 'a child session began');

create table effect (
    session_uid text not null references session (uid),
    id text not null,
    task_id text,
    position text not null,
    generation {int} not null check (generation >= 0),
    tool text not null,
    replay text not null check (replay in ('pure', 'idempotent', 'probe', 'compensate', 'escalate', 'joint')),
    targets text not null,
    intent text not null,
    intent_digest text not null check (length(intent_digest) = 64),
    idempotency_key text not null check (length(idempotency_key) = 64),
    state text not null check (
        state in ('planned', 'dispatched', 'acknowledged', 'failed', 'refused', 'compensated', 'superseded')
    ),
    reference text,
    result text,
    artifact text,
    error text,
    approval_id text,
    policy_version text,
    rule text,
    exemption_id text,
    supersedes text,
    verdict text check (verdict in ('happened', 'absent', 'abandon')),
    verdict_by text,
    verdict_because text,
    planned_at {int} not null,
    settled_at {int},
    doubted_at {int},
    doubt text,
    number {int} not null,
    settled_number {int},
    primary key (session_uid, id),
    unique (session_uid, idempotency_key),
    foreign key (session_uid, supersedes) references effect (session_uid, id),
    check (result is null or artifact is null),
    check ((verdict is null) = (verdict_by is null)),
    check ((state in ('planned', 'dispatched')) = (settled_at is null))
) {strict};

create index effect_by_id on effect (id);
create index effect_by_number on effect (session_uid, number);
create index effect_unsettled on effect (session_uid) where state in ('planned', 'dispatched');
create index effect_in_doubt on effect (doubted_at) where doubted_at is not null and state = 'dispatched';
create index effect_by_tool on effect (tool, state, planned_at);

create table attempt (
    session_uid text not null,
    effect_id text not null,
    number {int} not null check (number >= 1),
    worker text not null,
    epoch {int} not null,
    process text not null,
    sandbox text,
    dispatched_at {int} not null,
    deadline_at {int},
    outcome text check (outcome in ('acknowledged', 'failed', 'absent', 'unknown')),
    error text,
    usage text,
    ended_at {int},
    settled_at {int},
    primary key (session_uid, effect_id, number),
    foreign key (session_uid, effect_id) references effect (session_uid, id)
) {strict};

create table approval (
    session_uid text not null,
    id text not null,
    effect_id text not null,
    gate text not null,
    intent_digest text not null check (length(intent_digest) = 64),
    requester text not null,
    requester_may_decide {int} not null check (requester_may_decide in (0, 1)),
    quorum {int} not null check (quorum >= 1),
    expires_at {int},
    decision text check (decision in ('approved', 'denied', 'expired')),
    asked_at {int} not null,
    decided_at {int},
    consumed_by text,
    primary key (session_uid, id),
    foreign key (session_uid, effect_id) references effect (session_uid, id),
    check ((decision is null) = (decided_at is null)),
    check (consumed_by is null or (decision = 'approved' and consumed_by = effect_id))
) {strict};

create index approval_by_id on approval (id);
create index approval_open on approval (asked_at) where decision is null;

create table vote (
    session_uid text not null,
    approval_id text not null,
    voter text not null,
    decision text not null check (decision in ('approved', 'denied')),
    rationale text not null,
    at {int} not null,
    primary key (session_uid, approval_id, voter),
    foreign key (session_uid, approval_id) references approval (session_uid, id)
) {strict};

alter table wait add column number {int} not null default 0;
alter table wait add column resolved_number {int};
create index wait_by_id on wait (id);
create index wait_by_number on wait (session_uid, number);
