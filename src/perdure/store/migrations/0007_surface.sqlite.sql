-- A failed session may become ready again.

drop trigger session_moves_legally;

create trigger session_moves_legally before update of status on session
when new.status <> old.status and not (
    old.status = 'ready' and new.status in ('running', 'cancelled')
    or old.status = 'running' and new.status in ('ready', 'waiting', 'done', 'failed', 'cancelled')
    or old.status = 'waiting' and new.status in ('ready', 'cancelled')
    or old.status = 'failed' and new.status = 'ready'
)
begin select raise(abort, 'perdure: a session may not make this move'); end;

-- What is on record is deleted only when a person removes the whole session.

drop trigger wait_is_kept;
create trigger wait_is_kept before delete on wait
when not exists (select 1 from session where uid = old.session_uid and removed_at is not null)
begin select raise(abort, 'perdure: what is on record is never deleted'); end;

drop trigger inbox_is_kept;
create trigger inbox_is_kept before delete on inbox
when not exists (select 1 from session where uid = old.session_uid and removed_at is not null)
begin select raise(abort, 'perdure: what is on record is never deleted'); end;

drop trigger step_is_kept;
create trigger step_is_kept before delete on step
when not exists (select 1 from session where uid = old.session_uid and removed_at is not null)
begin select raise(abort, 'perdure: what is on record is never deleted'); end;

drop trigger decision_is_kept;
create trigger decision_is_kept before delete on decision
when not exists (select 1 from session where uid = old.session_uid and removed_at is not null)
begin select raise(abort, 'perdure: what is on record is never deleted'); end;

drop trigger effect_is_kept;
create trigger effect_is_kept before delete on effect
when not exists (select 1 from session where uid = old.session_uid and removed_at is not null)
begin select raise(abort, 'perdure: an effect is never deleted'); end;

drop trigger attempt_is_kept;
create trigger attempt_is_kept before delete on attempt
when not exists (select 1 from session where uid = old.session_uid and removed_at is not null)
begin select raise(abort, 'perdure: an attempt is never deleted'); end;

create trigger session_stays_removed before update on session
when old.removed_at is not null and (new.removed_at is null or new.status <> old.status)
begin select raise(abort, 'perdure: a removed session does not come back'); end;
