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
