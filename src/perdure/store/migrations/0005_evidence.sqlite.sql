-- SQLite cannot drop a CHECK, so the table is written anew. Nothing references it.

create table wait_anew (
    session_uid text not null references session (uid),
    id text not null,
    kind text not null references wait_kind (kind),
    ref text,
    detail text,
    due_at {int},
    since {int} not null,
    answer text,
    resolved_by text,
    resolved_at {int},
    number {int} not null default 0,
    resolved_number {int},
    primary key (session_uid, id),
    check (kind <> 'timer' or due_at is not null),
    check ((resolved_by is null) = (resolved_at is null)),
    check (answer is null or resolved_at is not null)
) {strict};

insert into wait_anew (
    session_uid, id, kind, ref, detail, due_at, since, answer, resolved_by, resolved_at, number, resolved_number
)
select session_uid, id, kind, ref, detail, due_at, since, answer, resolved_by, resolved_at, number, resolved_number
from wait order by rowid;

drop table wait;
alter table wait_anew rename to wait;

create index wait_due on wait (due_at) where resolved_at is null and due_at is not null;
create index wait_open on wait (kind, since) where resolved_at is null;
create index wait_ref on wait (ref) where resolved_at is null and ref is not null;
create index wait_by_id on wait (id);
create index wait_by_number on wait (session_uid, number);
create index lease_wait on wait (ref) where kind = 'lease' and resolved_at is null;

create trigger wait_is_resolved_once before update on wait
when old.resolved_at is not null or new.kind <> old.kind or new.ref is not old.ref
begin select raise(abort, 'perdure: a wait is resolved once'); end;

create trigger wait_is_kept before delete on wait
begin select raise(abort, 'perdure: what is on record is never deleted'); end;

create trigger effect_keeps_its_rule before update of inflight, key_ttl, retry on effect
when new.inflight is not old.inflight or new.key_ttl is not old.key_ttl or new.retry is not old.retry
begin select raise(abort, 'perdure: an effect keeps the rule it was planned under'); end;
