-- PostgreSQL reads and plans every CHECK of a table anew in every statement that writes to it. Those of `session` are a
-- quarter of what an append costs the server, and an append sets none of their columns. So the same conditions stand in
-- a trigger, which is planned once per connection and looked at only when one of their columns is set.
create function perdure_check_by_trigger(watched regclass, kept name[]) returns void language plpgsql as $$
declare
    moved name[] := array(
        select conname from pg_constraint where conrelid = watched and contype = 'c' and conname <> all (kept)
    );
    names text;
    declared text;
    checked text;
begin
    select string_agg(quote_ident(attname), ', '),
        string_agg(format('%I %s := new.%I; ', attname, format_type(atttypid, atttypmod), attname), '')
    into names, declared
    from pg_attribute
    where attrelid = watched
        and attnum in (select unnest(conkey) from pg_constraint where conrelid = watched and conname = any (moved));
    select string_agg(format(
        'if (%s) is false then raise exception ''a row of %s violates %s'' using errcode = ''check_violation'', '
        'constraint = %L; end if; ',
        pg_get_expr(conbin, conrelid), watched, conname, conname), '')
    into checked
    from pg_constraint where conrelid = watched and conname = any (moved);
    execute format(
        'create function %I() returns trigger language plpgsql as $f$ declare %s begin %s return new; end $f$',
        watched || '_is_sound', declared, checked);
    execute format('create trigger %I before insert or update of %s on %s for each row execute function %I()',
        watched || '_is_sound', names, watched, watched || '_is_sound');
    execute (
        select string_agg(format('alter table %s drop constraint %I; ', watched, gone), '') from unnest(moved) as gone
    );
end $$;

select perdure_check_by_trigger('session', array['session_cursor_check']);
drop function perdure_check_by_trigger;

-- Room on the page for the next version of a row: an update that changes no indexed column then touches no index.
alter table session set (fillfactor = 50);
alter table attempt set (fillfactor = 80);

-- The kinds that are appended all the time are known without a look.
drop trigger event_has_a_known_kind on event;
create trigger event_has_a_known_kind before insert on event for each row
when (new.kind not in ('message', 'note', 'step.recorded', 'effect.dispatched', 'effect.acknowledged'))
execute function perdure_known_kind();
