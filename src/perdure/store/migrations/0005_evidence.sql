-- phase: expand
-- compatible_from: 5
-- Kinds of wait become rows, so that new ones need no rewrite of the table. Older code would not know the new kinds,
-- nor what is recorded with an effect here, so it must not use the store any more.

create table wait_kind (
    kind text primary key not null,
    meaning text not null
) {strict};

insert into wait_kind (kind, meaning) values
    ('approval', 'a person must approve or deny an effect'),
    ('input', 'an answer or a message'),
    ('timer', 'a point in time'),
    ('doubt', 'a person must say what came of an effect'),
    ('effect', 'the outcome of an effect of the session this one was forked from'),
    ('lease', 'a resource that another session holds'),
    ('child', 'the result of a child session'),
    ('paused', 'a person must resume it'),
    ('program', 'a worker that knows its program'),
    ('policy', 'a process that was started with a policy'),
    ('quarantine', 'a person must look at a session whose workers crashed');

-- When an act ended by the boot clock of the machine that saw it, so that a step of the wall clock cannot shorten
-- `inflight`: which clock, and its microseconds.
alter table attempt add column ended_boot text;

-- The rest of the rule that an effect was planned under; null in older rows, where the loaded code decides.
alter table effect add column inflight {int};
alter table effect add column key_ttl {int};
alter table effect add column retry {int};

-- When a session was started under a policy: a process that has none must not run it. Which policy it was is not kept.
alter table session add column policy_at {int};

-- Failover (PostgreSQL): which processes write to the store, up to which timeline each has found everything that it had
-- acknowledged, and which sessions lost nothing in a restore.
insert into event_kind (kind, meaning) values
    ('lease.kept', 'another server took over, nothing of the session was lost, and its holder continues');

alter table restore add column timeline text;

create table writer (
    id text primary key not null,
    host text not null,
    timeline text not null,
    finding text,
    seen_at {int} not null
) {strict};

create table restore_exempt (
    epoch {int} not null,
    session_uid text not null,
    primary key (epoch, session_uid)
) {strict};
