-- Which schema the store has, and who may do what with it, is changed only by the owner of the tables.

create function perdure_only_the_owner() returns trigger language plpgsql as $$
begin
    if not pg_has_role((select relowner from pg_class where oid = tg_relid), 'usage') then
        raise exception 'perdure: only the owner of the tables may change this' using errcode = 'insufficient_privilege';
    end if;
    return new;
end $$;

create trigger meta_of_the_owner_is_inserted before insert on meta for each row
when (new.key in ('schema_version', 'compatible_from', 'store_id', 'roles'))
execute function perdure_only_the_owner();

create trigger meta_of_the_owner_is_changed before update on meta for each row
when (new.key in ('schema_version', 'compatible_from', 'store_id', 'roles') or old.key <> new.key)
execute function perdure_only_the_owner();

-- Uses never return, and an exemption never covers more than was granted.

create trigger exemption_use_is_kept before delete on exemption_use for each row
execute function perdure_refuse('what is on record is never deleted');

create trigger exemption_use_never_changes before update on exemption_use for each row
execute function perdure_refuse('what is on record never changes');

create trigger exemption_is_kept before delete on exemption for each row
execute function perdure_refuse('what is on record is never deleted');

create trigger exemption_is_granted_once before update on exemption for each row
when (
    new.used < old.used or old.revoked_at is not null and new.revoked_at is distinct from old.revoked_at
    or (new.id, new.rule, new.granted_by, new.granted_at, new.reason)
        <> (old.id, old.rule, old.granted_by, old.granted_at, old.reason)
    or (new.session_uid, new.repository, new.owner, new.tool, new.intent_digest, new.uses, new.expires_at, new.grantor)
        is distinct from
        (old.session_uid, old.repository, old.owner, old.tool, old.intent_digest, old.uses, old.expires_at, old.grantor)
)
execute function perdure_refuse('an exemption is granted once, and its uses never return');
