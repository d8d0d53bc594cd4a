-- What the database itself refuses of the ledger.

create trigger effect_begins_legally before insert on effect for each row
when (not (new.state in ('planned', 'dispatched')
    or (new.replay in ('pure', 'joint') and new.state in ('acknowledged', 'failed'))))
execute function perdure_refuse('an effect begins planned');

create trigger effect_moves_legally before update of state on effect for each row
when (new.state <> old.state and not (
    old.state = 'planned' and new.state in ('dispatched', 'refused', 'acknowledged')
    or old.state = 'dispatched' and new.state in ('acknowledged', 'planned', 'failed', 'compensated')
    or old.state = 'acknowledged' and new.state = 'compensated'
    or old.state = 'compensated' and new.state = 'superseded'
))
execute function perdure_refuse('an effect may not make this move');

create trigger effect_keeps_its_intent before update on effect for each row
when (new.intent <> old.intent or new.intent_digest <> old.intent_digest or new.position <> old.position
    or new.idempotency_key <> old.idempotency_key or new.tool <> old.tool or new.generation <> old.generation
    or (old.state = 'acknowledged' and new.result is distinct from old.result))
execute function perdure_refuse('an effect keeps its intent and its result');

create trigger effect_is_kept before delete on effect
for each row execute function perdure_refuse('an effect is never deleted');

create trigger attempt_keeps_its_outcome before update on attempt for each row
when (old.outcome in ('acknowledged', 'failed') and new.outcome is distinct from old.outcome)
execute function perdure_refuse('a known outcome is never changed');

create trigger attempt_is_kept before delete on attempt
for each row execute function perdure_refuse('an attempt is never deleted');

create trigger approval_is_decided_once before update on approval for each row
when ((old.decision is not null and new.decision is distinct from old.decision)
    or (old.consumed_by is not null and new.consumed_by is distinct from old.consumed_by)
    or new.intent_digest <> old.intent_digest)
execute function perdure_refuse('an approval is decided once and consumed once');

create trigger vote_is_cast_once before update on vote
for each row execute function perdure_refuse('a vote is cast once');

create function perdure_ends_settled() returns trigger language plpgsql as $$
begin
    if exists (select 1 from effect where session_uid = new.uid and state = 'dispatched') then
        raise exception 'perdure: a session does not end with an effect under way'
            using errcode = 'integrity_constraint_violation';
    end if;
    return new;
end $$;

create trigger session_ends_settled before update of status on session for each row
when (new.status in ('done', 'failed', 'cancelled') and old.status <> new.status)
execute function perdure_ends_settled();
