-- phase: expand
-- compatible_from: 10
-- Who decides approvals, and notifications. Older code records votes without an identity and does not see that an
-- approval was withdrawn, so it must not use the store any more.

insert into event_kind (kind, meaning) values
    ('approval.withdrawn', 'an approval was withdrawn before the effect was dispatched'),
    ('approval.escalated', 'an approval waits for long, and more people are asked');

create table principal (
    uid text primary key not null check (length(uid) = 32),
    name text not null check (name <> ''),
    kind text not null check (kind in ('person', 'program')),
    roles text not null, -- JSON: owner, operator, approver, auditor, worker
    added_by text not null,
    added_at {int} not null,
    removed_at {int}, -- its votes do not count any more; the name and the logins can be used again
    version {int} not null check (version >= 1)
) {strict};

create unique index principal_name on principal (name) where removed_at is null;

create table principal_login (
    principal_uid text not null references principal (uid),
    login text not null check (login <> ''), -- os:UID, db:ROLE, token:ID or oidc:SUBJECT
    added_by text not null,
    added_at {int} not null,
    removed_at {int},
    primary key (principal_uid, login, added_at)
) {strict};

create unique index principal_login_current on principal_login (login) where removed_at is null;

alter table vote add column identity text; -- who voted, as it was authenticated; null: in another store or older code
alter table vote add column principal_uid text; -- the principal of that identity when it voted

create unique index vote_identity on vote (session_uid, approval_id, identity) where identity is not null;

alter table approval add column conditions text; -- JSON: who may decide, besides the quorum; escalation
alter table approval add column requested_by text; -- JSON: the identities that started the session and its parents
alter table approval add column escalate_at {int}; -- when more people are asked, unless it is decided
alter table approval add column escalated_at {int};
alter table approval add column withdrawn_at {int}; -- it allows nothing any more
alter table approval add column withdrawn_by text;
alter table approval add column withdrawn_because text;

create index approval_to_escalate on approval (escalate_at)
where escalate_at is not null and escalated_at is null and decision is null;

create index event_of_note on event (session_uid, number) where kind = 'note'; -- who imported a session requests

create table notification_channel (
    name text primary key not null check (name <> ''), -- its address is in the settings of the processes that send
    kind text not null check (kind in ('webhook', 'command', 'email')),
    topics text not null, -- JSON: what it is told about
    registered_by text not null,
    registered_at {int} not null
) {strict};

create table notification (
    id text not null, -- the same for every delivery, so that a receiver can drop repetitions
    channel text not null,
    session_uid text,
    topic text not null,
    body text not null,
    created_at {int} not null,
    state text not null check (state in ('pending', 'sent', 'failed')),
    attempts {int} not null check (attempts >= 0),
    next_at {int} not null,
    claimed_by text,
    sent_at {int},
    error text,
    primary key (id, channel)
) {strict};

create index notification_due on notification (channel, next_at) where state = 'pending';
create index notification_by_time on notification (created_at);
