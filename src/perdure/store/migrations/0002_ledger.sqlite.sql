-- What the database itself refuses of the ledger.

create trigger effect_begins_legally before insert on effect
when not (new.state in ('planned', 'dispatched')
    or (new.replay in ('pure', 'joint') and new.state in ('acknowledged', 'failed')))
begin select raise(abort, 'perdure: an effect begins planned'); end;

create trigger effect_moves_legally before update of state on effect
when new.state <> old.state and not (
    old.state = 'planned' and new.state in ('dispatched', 'refused', 'acknowledged')
    or old.state = 'dispatched' and new.state in ('acknowledged', 'planned', 'failed', 'compensated')
    or old.state = 'acknowledged' and new.state = 'compensated'
    or old.state = 'compensated' and new.state = 'superseded'
)
begin select raise(abort, 'perdure: an effect may not make this move'); end;

create trigger effect_keeps_its_intent before update on effect
when new.intent <> old.intent or new.intent_digest <> old.intent_digest or new.position <> old.position
    or new.idempotency_key <> old.idempotency_key or new.tool <> old.tool or new.generation <> old.generation
    or (old.state = 'acknowledged' and new.result is not old.result)
begin select raise(abort, 'perdure: an effect keeps its intent and its result'); end;

create trigger effect_is_kept before delete on effect
begin select raise(abort, 'perdure: an effect is never deleted'); end;

create trigger attempt_keeps_its_outcome before update on attempt
when old.outcome in ('acknowledged', 'failed') and new.outcome is not old.outcome
begin select raise(abort, 'perdure: a known outcome is never changed'); end;

create trigger attempt_is_kept before delete on attempt
begin select raise(abort, 'perdure: an attempt is never deleted'); end;

create trigger approval_is_decided_once before update on approval
when (old.decision is not null and new.decision is not old.decision)
    or (old.consumed_by is not null and new.consumed_by is not old.consumed_by)
    or new.intent_digest <> old.intent_digest
begin select raise(abort, 'perdure: an approval is decided once and consumed once'); end;

create trigger vote_is_cast_once before update on vote
begin select raise(abort, 'perdure: a vote is cast once'); end;

create trigger session_ends_settled before update of status on session
when new.status in ('done', 'failed', 'cancelled') and old.status <> new.status
    and exists (select 1 from effect where session_uid = new.uid and state = 'dispatched')
begin select raise(abort, 'perdure: a session does not end with an effect under way'); end;
