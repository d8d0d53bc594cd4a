-- phase: expand
-- compatible_from: 10
-- Exemptions from rules of a policy, and their uses. A permission that a person gave with an approval was a fact before,
-- and becomes an exemption of exactly the same width.

insert into event_kind (kind, meaning) values
    ('exemption.granted', 'an exemption was granted together with an approval');

insert into wait_kind (kind, meaning) values
    ('budget', 'a person must raise a budget that is used up, or the next day must begin');

create table exemption (
    id text primary key not null,
    rule text not null check (rule <> ''), -- that it lifts
    session_uid text, -- what it covers; null: any
    repository text,
    owner text,
    tool text,
    intent_digest text, -- exactly this call
    reason text not null check (reason <> ''),
    granted_by text not null check (granted_by <> ''), -- the name that is shown
    grantor text, -- the authenticated identity; null: granted before identities were recorded
    granted_at {int} not null,
    approval_id text, -- it was granted together with this approval
    expires_at {int},
    uses {int} check (uses >= 1), -- how many effects may use it; null: any number
    used {int} not null check (used >= 0),
    revoked_at {int},
    revoked_by text,
    revoked_because text,
    move_id text not null,
    check (uses is null or used <= uses),
    check ((revoked_at is null) = (revoked_by is null)),
    check (session_uid is not null or repository is not null or owner is not null or tool is not null)
) {strict};

create index exemption_in_force on exemption (rule, session_uid) where revoked_at is null;
create index exemption_of_session on exemption (session_uid) where session_uid is not null;
create index exemption_by_time on exemption (granted_at, id);
create index exemption_of_move on exemption (move_id);

create table exemption_use (
    session_uid text not null,
    effect_id text not null,
    exemption_id text not null references exemption (id),
    at {int} not null,
    primary key (session_uid, effect_id, exemption_id)
) {strict};

create index exemption_use_by_exemption on exemption_use (exemption_id, at);

insert into exemption (
    id, rule, session_uid, tool, intent_digest, reason, granted_by, granted_at, used, move_id
)
select 'x-' || substr(scope, 9, 12) || '-' || key, 'agent', substr(scope, 9),
    case when key between 'intent:' and 'intent:~' then '*' else key end,
    case when key between 'intent:' and 'intent:~' then substr(key, 8) end,
    'allowed with an approval', updated_by, updated_at, 0, 'migration'
from fact where scope between 'allowed:' and 'allowed:~';
