"""The ledger's moves about what nobody knows: an act that ended, a doubt, a person's verdict, an undo.

A doubt is a question to a person, asked only when nothing else can tell. It is in the table before the session parks,
and whatever settles the effect first, a person or a late outcome, resolves it in the same transaction.
"""

from __future__ import annotations

from typing import Any

from perdure.domain.effect import AttemptOutcome, Effect, EffectState, Verdict
from perdure.domain.wait import WaitKind
from perdure.errors import ConfigError, IllegalMove
from perdure.ids import check_name, check_text, encode
from perdure.store import wait
from perdure.store.effect import get, move, of_effect, opened
from perdure.store.intent import Outcome
from perdure.store.move import Log, holder_move, outsider_move


@outsider_move
def ended(log: Log, id: str, number: int, *, because: str) -> None:
    """The act of an attempt is known to have ended: its process was found dead. From now on `inflight` runs."""
    if log.tx.run("attempt.end", uid=log.uid, effect_id=id, number=number, now=log.tx.now):
        log.append("effect.ended", {"attempt": number, "because": because}, effect_id=id)


@outsider_move
def overrun(log: Log, id: str, number: int, *, error: str) -> None:
    """The act has not answered in time and goes on: its outcome is unknown, and it has not ended."""
    effect, attempts = get(log.tx, log.uid, id), of_effect(log.tx, log.uid, id)
    if effect.state == EffectState.DISPATCHED and attempts[-1].number == number and attempts[-1].outcome is None:
        log.tx.send("attempt.overrun", uid=log.uid, effect_id=id, number=number, error=error)
        log.append("effect.unknown", {"attempt": number, "error": opened(error), "under_way": True}, effect_id=id)


@holder_move
def doubt(log: Log, id: str, why: str, *, evidence: Any = None) -> str:
    """Ask a person what came of an effect; returns the id of the wait."""
    effect, attempts = get(log.tx, log.uid, id), of_effect(log.tx, log.uid, id)
    wait_id = f"doubt-{id}-{len(attempts)}"
    if effect.state != EffectState.DISPATCHED:
        raise IllegalMove(f"Effect {id} is {effect.state}; only one that was dispatched can be in doubt.")
    if effect.doubted_at is None:
        log.tx.send("effect.doubt", uid=log.uid, id=id, now=log.tx.now, doubt=why)
        row = {"id": id, "doubted_at": log.tx.now, "doubt": why}
        log.append("effect.doubted", {"why": why, "evidence": evidence}, rows={"effect": [row]}, effect_id=id)
        detail = {"tool": effect.tool, "intent": effect.intent, "why": why}
        wait.open_.on(log, wait_id, WaitKind.DOUBT, ref=id, detail=detail)
    return wait_id


@outsider_move
def pronounce(
    log: Log,
    id: str,
    verdict: Verdict,
    *,
    because: str,
    reference: str | None = None,
    result: str | None = None,
) -> Effect:
    """A person says what came of an effect in doubt. The same word again changes nothing."""
    check_name("Who says it", log.actor)
    if not because.strip():
        raise ConfigError("A verdict needs a reason.", hint="Say what you looked at with --because.")
    check_text("The verdict", because + (reference or ""))
    effect, attempts = get(log.tx, log.uid, id), of_effect(log.tx, log.uid, id)
    if effect.verdict is not None and (effect.verdict, effect.verdict_by) == (verdict, log.actor):
        return effect
    if effect.doubted_at is None or effect.state != EffectState.DISPATCHED:
        raise IllegalMove(f"Effect {id} is {effect.state} and not in doubt; there is nothing to settle.")
    said, number = (verdict, log.actor, because), attempts[-1].number
    log.append("effect.settled", {"verdict": verdict, "because": because, "attempt": number}, effect_id=id)
    match verdict:
        case Verdict.HAPPENED:
            known = Outcome(outcome=AttemptOutcome.ACKNOWLEDGED, result=result or "null", reference=reference)
            move(log, effect, EffectState.ACKNOWLEDGED, "effect.acknowledged", outcome=known, verdict=said)
        case Verdict.ABSENT:
            log.tx.send("attempt.rule_absent", uid=log.uid, effect_id=id, number=number, now=log.tx.now)
            move(log, effect, EffectState.PLANNED, "effect.absent", verdict=said)
        case Verdict.ABANDON:
            given_up = Outcome(outcome=AttemptOutcome.UNKNOWN, error=encode({"code": "abandoned", "message": because}))
            move(log, effect, EffectState.FAILED, "effect.failed", outcome=given_up, verdict=said)
    return get(log.tx, log.uid, id)


@holder_move
def noted(log: Log, id: str, why: str) -> None:
    """What recovery found out and decided, for whoever reads the log."""
    log.append("effect.recovered", {"why": why}, effect_id=id)


@holder_move
def give_up(log: Log, id: str, why: str, *, absent: bool = False) -> Effect:
    """Proof that it did not happen (`absent`), or a `pure` effect or an undo that raised too often: none are left."""
    effect, attempts = get(log.tx, log.uid, id), of_effect(log.tx, log.uid, id)
    last = attempts[-1]
    if absent:
        log.tx.send("attempt.rule_absent", uid=log.uid, effect_id=id, number=last.number, now=log.tx.now)
    error = encode({"code": "not-done", "message": why}) if absent or last.error is None else encode(last.error)
    failed = Outcome(outcome=AttemptOutcome.FAILED, error=error)
    move(log, effect, EffectState.FAILED, "effect.failed", outcome=failed, attempt=last.number, why=why)
    return get(log.tx, log.uid, id)


@holder_move
def compensated(log: Log, id: str, *, by_effect: str) -> Effect:
    """Its undo was acknowledged."""
    effect = get(log.tx, log.uid, id)
    if get(log.tx, log.uid, by_effect).state != EffectState.ACKNOWLEDGED:
        raise IllegalMove(f"The undo {by_effect} of effect {id} is not acknowledged.")
    move(log, effect, EffectState.COMPENSATED, "effect.compensated", undo=by_effect)
    return get(log.tx, log.uid, id)
