-- A failed session may become ready again.

drop trigger session_moves_legally on session;

create trigger session_moves_legally before update of status on session for each row
when (new.status <> old.status and not (
    old.status = 'ready' and new.status in ('running', 'cancelled')
    or old.status = 'running' and new.status in ('ready', 'waiting', 'done', 'failed', 'cancelled')
    or old.status = 'waiting' and new.status in ('ready', 'cancelled')
    or old.status = 'failed' and new.status = 'ready'
))
execute function perdure_refuse('a session may not make this move');

-- What is on record is deleted only when a person removes the whole session.
create function perdure_kept() returns trigger language plpgsql as $$
begin
    if not exists (select 1 from session where uid = old.session_uid and removed_at is not null) then
        raise exception 'perdure: %', tg_argv[0] using errcode = 'integrity_constraint_violation';
    end if;
    return old;
end $$;

drop trigger wait_is_kept on wait;
create trigger wait_is_kept before delete on wait
for each row execute function perdure_kept('what is on record is never deleted');

drop trigger inbox_is_kept on inbox;
create trigger inbox_is_kept before delete on inbox
for each row execute function perdure_kept('what is on record is never deleted');

drop trigger step_is_kept on step;
create trigger step_is_kept before delete on step
for each row execute function perdure_kept('what is on record is never deleted');

drop trigger decision_is_kept on decision;
create trigger decision_is_kept before delete on decision
for each row execute function perdure_kept('what is on record is never deleted');

drop trigger effect_is_kept on effect;
create trigger effect_is_kept before delete on effect
for each row execute function perdure_kept('an effect is never deleted');

drop trigger attempt_is_kept on attempt;
create trigger attempt_is_kept before delete on attempt
for each row execute function perdure_kept('an attempt is never deleted');

create trigger session_stays_removed before update of removed_at, status on session for each row
when (old.removed_at is not null and (new.removed_at is null or new.status <> old.status))
execute function perdure_refuse('a removed session does not come back');
