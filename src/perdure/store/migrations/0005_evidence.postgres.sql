-- As with events, a foreign key would lock the kind's row in every wait; kinds are only ever added, so a look is enough.
alter table wait drop constraint wait_kind_check;

create function perdure_known_wait() returns trigger language plpgsql as $$
begin
    if not exists (select 1 from wait_kind where kind = new.kind) then
        raise exception 'perdure: unknown kind of wait' using errcode = 'foreign_key_violation';
    end if;
    return new;
end $$;

create trigger wait_has_a_known_kind before insert on wait
for each row execute function perdure_known_wait();

-- Refuses to commit what older code wrote after the schema has outgrown it; `known` is the newest schema it knows.
create function perdure_check_schema(known bigint) returns void language plpgsql as $$
begin
    if (select cast(value as bigint) from meta where key = 'compatible_from') > known then
        raise exception 'perdure: the schema is newer than this code' using errcode = 'PD002';
    end if;
end $$;

-- A write that reaches another server than the one whose timeline was compared goes no further.
create function perdure_same_server(same boolean) returns boolean language plpgsql as $$
begin
    if not same then
        raise exception 'perdure: another server has taken over' using errcode = 'PD001';
    end if;
    return same;
end $$;

create trigger effect_keeps_its_rule before update of inflight, key_ttl, retry on effect for each row
when (
    new.inflight is distinct from old.inflight or new.key_ttl is distinct from old.key_ttl
    or new.retry is distinct from old.retry
)
execute function perdure_refuse('an effect keeps the rule it was planned under');
