-- Targets of effects, for those on record and for new ones. What is not an array of texts has no targets.

insert or ignore into effect_target (session_uid, effect_id, target, at)
select effect.session_uid, effect.id, substr(item.value, 1, 500), effect.planned_at
from effect, json_each(case when json_valid(effect.targets) then effect.targets else '[]' end) as item
where effect.targets <> '[]' and item.type = 'text';

create trigger effect_target_is_indexed after insert on effect
when new.targets <> '[]'
begin
    insert or ignore into effect_target (session_uid, effect_id, target, at)
    select new.session_uid, new.id, substr(item.value, 1, 500), new.planned_at
    from json_each(case when json_valid(new.targets) then new.targets else '[]' end) as item
    where item.type = 'text';
end;

create trigger effect_target_goes_with_its_effect after delete on effect
begin delete from effect_target where session_uid = old.session_uid and effect_id = old.id; end;

create trigger effect_target_is_kept before delete on effect_target
when exists (select 1 from effect where session_uid = old.session_uid and id = old.effect_id)
begin select raise(abort, 'perdure: what is on record is never deleted'); end;

create trigger effect_target_never_changes before update on effect_target
begin select raise(abort, 'perdure: what is on record never changes'); end;

create trigger access_never_changes before update on access
begin select raise(abort, 'perdure: what is on record never changes'); end;

create trigger feed_never_changes before update on feed
begin select raise(abort, 'perdure: what is on record never changes'); end;

create trigger feed_is_kept before delete on feed
begin select raise(abort, 'perdure: what is on record is never deleted'); end;

create trigger feed_only_grows before update on feed_end
when new.number < old.number
begin select raise(abort, 'perdure: a log never gets shorter'); end;
