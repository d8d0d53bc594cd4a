-- Targets of effects, for those on record and for new ones. What is not an array of texts has no targets.

create function perdure_targets(listed text) returns text[] language plpgsql immutable as $$
begin
    return array(
        select distinct left(value #>> '{}', 500) from json_array_elements(cast(listed as json)) as value
        where json_typeof(value) = 'string'
    );
exception when others then
    return '{}';
end $$;

insert into effect_target (session_uid, effect_id, target, at)
select effect.session_uid, effect.id, item, effect.planned_at
from effect, unnest(perdure_targets(effect.targets)) as item
where effect.targets <> '[]'
on conflict do nothing;

create function perdure_index_targets() returns trigger language plpgsql as $$
begin
    insert into effect_target (session_uid, effect_id, target, at)
    select new.session_uid, new.id, item, new.planned_at from unnest(perdure_targets(new.targets)) as item
    on conflict do nothing;
    return null;
end $$;

create trigger effect_target_is_indexed after insert on effect for each row
when (new.targets <> '[]')
execute function perdure_index_targets();

create function perdure_forget_targets() returns trigger language plpgsql as $$
begin
    delete from effect_target where session_uid = old.session_uid and effect_id = old.id;
    return null;
end $$;

create trigger effect_target_goes_with_its_effect after delete on effect for each row
execute function perdure_forget_targets();

create function perdure_target_has_effect() returns trigger language plpgsql as $$
begin
    if exists (select 1 from effect where session_uid = old.session_uid and id = old.effect_id) then
        raise exception 'perdure: what is on record is never deleted' using errcode = 'integrity_constraint_violation';
    end if;
    return old;
end $$;

create trigger effect_target_is_kept before delete on effect_target for each row
execute function perdure_target_has_effect();

create trigger effect_target_never_changes before update on effect_target for each row
execute function perdure_refuse('what is on record never changes');

create trigger access_never_changes before update on access for each row
execute function perdure_refuse('what is on record never changes');

create trigger feed_never_changes before update on feed for each row
execute function perdure_refuse('what is on record never changes');

create trigger feed_is_kept before delete on feed for each row
execute function perdure_refuse('what is on record is never deleted');

create trigger feed_only_grows before update on feed_end for each row
when (new.number < old.number)
execute function perdure_refuse('a log never gets shorter');
