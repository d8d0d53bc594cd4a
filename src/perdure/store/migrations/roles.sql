-- Roles of the database, one for each duty (`store.rights`). They have no login: grant them to the logins that people and
-- processes use. It may be run again at any time, by a superuser, or by the owner of the tables if it may create roles.

do $roles$
declare role text;
begin
    foreach role in array array['worker', 'service', 'approver', 'auditor', 'owner'] loop
        if not exists (select 1 from pg_roles where rolname = '{prefix}_' || role) then
            execute format('create role %I nologin', '{prefix}_' || role);
        end if;
    end loop;
    if not pg_has_role('{prefix}_owner', 'member') then
        execute format('grant %I to current_user', '{prefix}_owner');
    end if;
    execute format('revoke create on schema %I from public', current_schema());
    execute format('grant usage, create on schema %I to %I', current_schema(), '{prefix}_owner');
    foreach role in array array['worker', 'service', 'approver', 'auditor'] loop
        execute format('revoke create on schema %I from %I', current_schema(), '{prefix}_' || role);
        execute format('grant usage on schema %I to %I', current_schema(), '{prefix}_' || role);
    end loop;
    foreach role in array string_to_array('{relations}', ',') loop
        execute format('alter table %I owner to %I', role, '{prefix}_owner');
        execute format(
            'revoke all on %I from public, %I, %I, %I, %I', role,
            '{prefix}_worker', '{prefix}_service', '{prefix}_approver', '{prefix}_auditor'
        );
    end loop;
    for role in
        select oid::regprocedure::text from pg_proc
        where proname like 'perdure\_%' and pronamespace = current_schema()::regnamespace
    loop
        execute format('alter function %s owner to %I', role, '{prefix}_owner');
    end loop;
end $roles$;
