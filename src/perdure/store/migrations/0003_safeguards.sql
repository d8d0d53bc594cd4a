-- phase: expand
-- compatible_from: 3
-- Leases that effects need, undo on request, and restores. It only adds, but code that does not know these columns
-- would act without a lease, and after a restore twice.

insert into event_kind (kind, meaning) values
    ('effect.undo_requested', 'somebody asks to take the action back'),
    ('effect.undo_failed', 'the action could not be taken back'),
    ('effect.presumed', 'the store was put back to an earlier time; the action may have happened already');

alter table effect add column leases text;
alter table effect add column undo_requested_at {int};
alter table effect add column undo_by text;
alter table effect add column undo_because text;
alter table effect add column restore_epoch {int};

create index effect_to_undo on effect (session_uid) where undo_requested_at is not null;
create index lease_wait on wait (ref) where kind = 'lease' and resolved_at is null;

create table restore (
    epoch {int} primary key not null check (epoch >= 1),
    began_at {int} not null,
    rewound_to {int} not null,
    cause text not null check (cause in ('declared', 'witness', 'timeline')),
    detail text,
    released_at {int},
    released_by text,
    released_because text,
    check ((released_at is null) = (released_by is null)),
    check ((released_at is null) = (released_because is null))
) {strict};
