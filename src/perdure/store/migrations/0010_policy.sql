-- phase: expand
-- compatible_from: 10
-- Policies of the store, their versions, and the control log of changes to the store. Code of schema 9 would dispatch
-- without looking at the policy, so it is refused from here on.

create table control_event (
    number {int} primary key not null check (number >= 1),
    kind text not null check (kind <> ''),
    actor text not null check (actor <> ''),
    at {int} not null,
    move_id text not null,
    body text not null,
    digest text not null check (length(digest) = 64),
    chain text not null check (length(chain) = 64)
) {strict};

create index control_event_by_kind on control_event (kind, number);
create index control_event_of_move on control_event (move_id);

insert into meta (key, value) values ('control_log', 'locked by the transaction that appends to it');

create table policy (
    version {int} primary key not null check (version >= 1),
    digest text not null check (length(digest) = 64), -- of the text
    fence text not null unique, -- what a dispatch under this version carries; no other version ever has it
    source text not null, -- the text
    activated_by text not null,
    reason text not null check (reason <> ''),
    activated_at {int} not null,
    move_id text not null unique
) {strict};

-- The one row that every dispatch looks at. While the policy is frozen it has no fence, and nothing matches it.
create table policy_fence (
    one {int} primary key not null check (one = 1),
    version {int} not null check (version >= 0), -- 0: no policy was set yet
    fence text,
    frozen_at {int},
    frozen_by text,
    frozen_because text,
    check ((fence is null) = (frozen_at is not null)),
    check ((frozen_at is null) = (frozen_by is null)),
    check ((frozen_at is null) = (frozen_because is null))
) {strict};

insert into policy_fence (one, version, fence) values (1, 0, '0');

alter table effect add column reach text check (reach in ('none', 'model', 'workspace', 'machine', 'outside'));

-- The policy that an attempt was dispatched under, and its rule. A dispatch whose policy is not the active one has no
-- version to write here, and is refused as a whole.
alter table attempt add column policy_version text not null default '0';
alter table attempt add column rule text;
