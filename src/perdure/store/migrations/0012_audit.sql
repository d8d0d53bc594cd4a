-- phase: expand
-- compatible_from: 10
-- What auditors ask for: targets as rows, repositories by identity, what models cost by day, who read what, and the
-- indexes that answer the questions of `perdure audit`. Only rows that a question shows are indexed where that is
-- possible: an index over all events or all settles would be paid by every move.

-- Written by a trigger with the effect, so that no way of planning one can forget it. `target` is at most 500 characters.
create table effect_target (
    session_uid text not null,
    effect_id text not null,
    target text not null {bytewise},
    at {int} not null,
    primary key (session_uid, effect_id, target)
) {strict};

create index effect_target_by_name on effect_target (target, at, session_uid, effect_id);
create index effect_by_time on effect (planned_at, id);
create index effect_refused on effect (settled_at, session_uid, id) where state = 'refused';
create index effect_failed on effect (settled_at, session_uid, id) where state = 'failed';
create index attempt_repeated on attempt (dispatched_at, session_uid, effect_id, number) where number > 1;
create index effect_of_commit on effect (reference) where tool = 'git_commit' and reference is not null;
create index approval_by_time on approval (asked_at, session_uid, id);
create index approval_of_effect on approval (session_uid, effect_id);

-- The events of these kinds are rare; the others are not in the index.
create index event_of_incident on event (at, session_uid, number) where kind in (
    'effect.doubted', 'effect.settled', 'effect.compensated', 'effect.undo_requested', 'effect.undo_failed',
    'effect.presumed', 'lease.taken_over', 'lease.expired', 'session.retried', 'session.removed', 'event.erased'
);
create index event_of_recovery on event (session_uid, effect_id, number) where kind = 'effect.recovered';

-- A repository by its remote, or by its first commit: two clones are one.
alter table session add column repository_id text;
create index session_by_repository_id on session (repository_id, updated_at) where repository_id is not null;
create index control_event_by_time on control_event (at, number);
create index session_ended_badly on session (updated_at, uid) where status = 'failed';

create table model_usage (
    day {int} not null, -- its first microsecond, in UTC
    session_uid text not null,
    model text not null, -- empty: used before this was recorded
    owner text,
    calls {int} not null check (calls >= 0),
    tokens_in {int} not null check (tokens_in >= 0),
    tokens_out {int} not null check (tokens_out >= 0),
    cost_micros {int} not null check (cost_micros >= 0),
    primary key (day, session_uid, model)
) {strict};

create index model_usage_of_session on model_usage (session_uid, day);
create index model_usage_of_owner on model_usage (owner, day) where owner is not null;

insert into model_usage (day, session_uid, model, owner, calls, tokens_in, tokens_out, cost_micros)
select updated_at - updated_at % 86400000000, uid, '', owner, 0, tokens_in, tokens_out, cost_micros
from session where tokens_in > 0 or tokens_out > 0 or cost_micros > 0;

-- Who read or exported what, if the policy asks for it. It is apart from the logs of sessions: reading changes none.
create table access (
    id text primary key not null,
    at {int} not null,
    identity text not null check (identity <> ''),
    action text not null check (action <> ''),
    session_uid text,
    subject text,
    detail text
) {strict};

create index access_by_time on access (at, id);
create index access_of_session on access (session_uid, at, id) where session_uid is not null;

-- The order in which `perdure audit tail` gives events: a number for each, given after its commit, without gaps. Only
-- committed events get one, so that a late commit is later in the feed and never missing from it.
create table feed (
    number {int} primary key not null check (number >= 1), -- of its first event; the next row begins after its last
    session_uid text not null, -- empty: the control log
    first {int} not null check (first >= 1),
    through {int} not null check (through >= first),
    unique (session_uid, first)
) {strict};

create table feed_end (
    one {int} primary key not null check (one = 1),
    number {int} not null check (number >= 0) -- of the last event in the feed
) {strict};

insert into feed_end (one, number) values (1, 0);
