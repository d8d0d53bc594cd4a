-- What the database itself refuses, whoever asks.

create function perdure_refuse() returns trigger language plpgsql as $$
begin
    raise exception 'perdure: %', tg_argv[0] using errcode = 'integrity_constraint_violation';
end $$;

-- A foreign key would lock the kind's row in every append; kinds are only ever added, so looking is enough.
create function perdure_known_kind() returns trigger language plpgsql as $$
begin
    if not exists (select 1 from event_kind where kind = new.kind) then
        raise exception 'perdure: unknown kind of event' using errcode = 'foreign_key_violation';
    end if;
    return new;
end $$;

create trigger event_has_a_known_kind before insert on event
for each row execute function perdure_known_kind();

create trigger event_is_append_only before update on event for each row
when (not (
    new.body is null and new.salt is null and old.body is not null
    and new.session_uid = old.session_uid and new.number = old.number and new.kind = old.kind
    and new.actor = old.actor and new.at = old.at and new.effect_id is not distinct from old.effect_id
    and new.move_id = old.move_id and new.digest = old.digest and new.chain = old.chain
))
execute function perdure_refuse('an event changes only by erasure');

create trigger event_is_kept before delete on event
for each row execute function perdure_refuse('an event is never deleted');

create trigger session_moves_legally before update of status on session for each row
when (new.status <> old.status and not (
    old.status = 'ready' and new.status in ('running', 'cancelled')
    or old.status = 'running' and new.status in ('ready', 'waiting', 'done', 'failed', 'cancelled')
    or old.status = 'waiting' and new.status in ('ready', 'cancelled')
))
execute function perdure_refuse('a session may not make this move');

create trigger session_only_grows before update of cursor on session for each row
when (new.cursor < old.cursor)
execute function perdure_refuse('a log never gets shorter');

create trigger session_epoch_only_rises before update of lease_epoch on session for each row
when (new.lease_epoch < old.lease_epoch)
execute function perdure_refuse('an epoch never comes back');

create trigger session_keeps_its_names before update of uid, id on session for each row
when (new.uid <> old.uid or new.id <> old.id)
execute function perdure_refuse('a session keeps its names');

create trigger lease_epoch_only_rises before update of epoch on lease for each row
when (new.epoch < old.epoch)
execute function perdure_refuse('an epoch never comes back');

create trigger lease_is_kept before delete on lease
for each row execute function perdure_refuse('a lease keeps its epoch');

create trigger wait_is_resolved_once before update on wait for each row
when (old.resolved_at is not null or new.kind <> old.kind or new.ref is distinct from old.ref)
execute function perdure_refuse('a wait is resolved once');

create trigger inbox_is_promoted_once before update on inbox for each row
when (old.promoted_as is not null or new.body <> old.body or new.sequence <> old.sequence
    or new.sender <> old.sender or new.mode <> old.mode)
execute function perdure_refuse('a message is promoted once and never changed');

create trigger step_is_recorded_once before update on step
for each row execute function perdure_refuse('a step is recorded once');

create trigger decision_is_written_once before update on decision for each row
when (old.outcome is not null or new.decision <> old.decision or new.rationale <> old.rationale
    or new.planned_action is distinct from old.planned_action)
execute function perdure_refuse('a decision is written once and settled once');

create trigger session_is_kept before delete on session
for each row execute function perdure_refuse('what is on record is never deleted');

create trigger wait_is_kept before delete on wait
for each row execute function perdure_refuse('what is on record is never deleted');

create trigger inbox_is_kept before delete on inbox
for each row execute function perdure_refuse('what is on record is never deleted');

create trigger step_is_kept before delete on step
for each row execute function perdure_refuse('what is on record is never deleted');

create trigger decision_is_kept before delete on decision
for each row execute function perdure_refuse('what is on record is never deleted');
