-- What the database itself refuses, whoever asks.

create trigger event_is_append_only before update on event
when not (
    new.body is null and new.salt is null and old.body is not null
    and new.session_uid = old.session_uid and new.number = old.number and new.kind = old.kind
    and new.actor = old.actor and new.at = old.at and new.effect_id is old.effect_id
    and new.move_id = old.move_id and new.digest = old.digest and new.chain = old.chain
)
begin select raise(abort, 'perdure: an event changes only by erasure'); end;

create trigger event_is_kept before delete on event
begin select raise(abort, 'perdure: an event is never deleted'); end;

create trigger session_moves_legally before update of status on session
when new.status <> old.status and not (
    old.status = 'ready' and new.status in ('running', 'cancelled')
    or old.status = 'running' and new.status in ('ready', 'waiting', 'done', 'failed', 'cancelled')
    or old.status = 'waiting' and new.status in ('ready', 'cancelled')
)
begin select raise(abort, 'perdure: a session may not make this move'); end;

create trigger session_only_grows before update of cursor on session
when new.cursor < old.cursor
begin select raise(abort, 'perdure: a log never gets shorter'); end;

create trigger session_epoch_only_rises before update of lease_epoch on session
when new.lease_epoch < old.lease_epoch
begin select raise(abort, 'perdure: an epoch never comes back'); end;

create trigger session_keeps_its_names before update of uid, id on session
when new.uid <> old.uid or new.id <> old.id
begin select raise(abort, 'perdure: a session keeps its names'); end;

create trigger lease_epoch_only_rises before update of epoch on lease
when new.epoch < old.epoch
begin select raise(abort, 'perdure: an epoch never comes back'); end;

create trigger lease_is_kept before delete on lease
begin select raise(abort, 'perdure: a lease keeps its epoch'); end;

create trigger wait_is_resolved_once before update on wait
when old.resolved_at is not null or new.kind <> old.kind or new.ref is not old.ref
begin select raise(abort, 'perdure: a wait is resolved once'); end;

create trigger inbox_is_promoted_once before update on inbox
when old.promoted_as is not null or new.body <> old.body or new.sequence <> old.sequence
    or new.sender <> old.sender or new.mode <> old.mode
begin select raise(abort, 'perdure: a message is promoted once and never changed'); end;

create trigger step_is_recorded_once before update on step
begin select raise(abort, 'perdure: a step is recorded once'); end;

create trigger decision_is_written_once before update on decision
when old.outcome is not null or new.decision <> old.decision or new.rationale <> old.rationale
    or new.planned_action is not old.planned_action
begin select raise(abort, 'perdure: a decision is written once and settled once'); end;

create trigger session_is_kept before delete on session
begin select raise(abort, 'perdure: what is on record is never deleted'); end;

create trigger wait_is_kept before delete on wait
begin select raise(abort, 'perdure: what is on record is never deleted'); end;

create trigger inbox_is_kept before delete on inbox
begin select raise(abort, 'perdure: what is on record is never deleted'); end;

create trigger step_is_kept before delete on step
begin select raise(abort, 'perdure: what is on record is never deleted'); end;

create trigger decision_is_kept before delete on decision
begin select raise(abort, 'perdure: what is on record is never deleted'); end;
