"""The ledger's moves for unknown outcomes: the end of an act, a doubt, a person's verdict, an undo.

A doubt is a question to a person, asked only when no other evidence is available. It is in the table before the session
parks, and whatever settles the effect first, a person or a late outcome, resolves it in the same transaction.
"""

from __future__ import annotations

from typing import Any

from perdure.domain.effect import AttemptOutcome, Effect, EffectState, Verdict
from perdure.domain.session import TERMINAL
from perdure.domain.wait import WaitKind
from perdure.errors import ConfigError, IllegalMove
from perdure.ids import check_name, check_text, encode
from perdure.store.move import Log, StoreTransaction, holder_move, outsider_move
from perdure.store.moves import session, wait
from perdure.store.moves.attempt import attempts_of, boot_mark
from perdure.store.moves.effect import MANY, get, move, raw_json
from perdure.store.moves.effect_input import AttemptResult


@outsider_move
def record_end(log: Log, id: str, number: int, *, because: str) -> None:
    """Record that the act of an attempt has ended: its process was found dead. `inflight` is counted from now on."""
    mark = boot_mark(log.tx)
    if log.tx.run("attempt.end", uid=log.uid, effect_id=id, number=number, now=log.tx.now, ended_boot=mark):
        log.append("effect.ended", {"attempt": number, "because": because}, effect_id=id)


@outsider_move
def record_overrun(log: Log, id: str, number: int, *, error: str) -> None:
    """Record that an act exceeded its time limit and still runs: its outcome is unknown."""
    effect, attempts = get(log.tx, log.uid, id), attempts_of(log.tx, log.uid, id)
    if effect.state == EffectState.DISPATCHED and attempts[-1].number == number and attempts[-1].outcome is None:
        log.tx.send("attempt.overrun", uid=log.uid, effect_id=id, number=number, error=error)
        log.append("effect.unknown", {"attempt": number, "error": raw_json(error), "under_way": True}, effect_id=id)


@holder_move
def open_doubt(log: Log, id: str, why: str, *, evidence: Any = None) -> str:
    """Ask a person for the outcome of an effect; returns the id of the wait."""
    effect, attempts = get(log.tx, log.uid, id), attempts_of(log.tx, log.uid, id)
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
def record_verdict(
    log: Log,
    id: str,
    verdict: Verdict,
    *,
    because: str,
    reference: str | None = None,
    result: str | None = None,
) -> Effect:
    """Record a person's verdict on an effect in doubt. The same verdict again changes nothing."""
    check_name("The name of the person", log.actor)
    if not because.strip():
        raise ConfigError("A verdict needs a reason.", hint="Name what you checked with --because.")
    check_text("The verdict", because + (reference or ""))
    effect, attempts = get(log.tx, log.uid, id), attempts_of(log.tx, log.uid, id)
    if effect.verdict is not None and (effect.verdict, effect.verdict_by) == (verdict, log.actor):
        return effect
    if effect.doubted_at is None or effect.state != EffectState.DISPATCHED:
        raise IllegalMove(f"Effect {id} is {effect.state} and not in doubt; there is nothing to settle.")
    said, number = (verdict, log.actor, because), attempts[-1].number
    log.append("effect.settled", {"verdict": verdict, "because": because, "attempt": number}, effect_id=id)
    match verdict:
        case Verdict.HAPPENED:
            known = AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result=result or "null", reference=reference)
            move(log, effect, EffectState.ACKNOWLEDGED, "effect.acknowledged", outcome=known, verdict=said)
        case Verdict.ABSENT:
            log.tx.send("attempt.rule_absent", uid=log.uid, effect_id=id, number=number, now=log.tx.now)
            move(log, effect, EffectState.PLANNED, "effect.absent", verdict=said)
        case Verdict.ABANDON:
            given_up = AttemptResult(
                outcome=AttemptOutcome.UNKNOWN, error=encode({"code": "abandoned", "message": because})
            )
            move(log, effect, EffectState.FAILED, "effect.failed", outcome=given_up, verdict=said)
    return get(log.tx, log.uid, id)


@holder_move
def record_recovery(log: Log, id: str, why: str, *, evidence: dict[str, Any] | None = None) -> None:
    """Record the decision of recovery in the log, with its evidence: when and how that was obtained."""
    log.append("effect.recovered", {"why": why} | ({"evidence": evidence} if evidence else {}), effect_id=id)


@holder_move
def fail(log: Log, id: str, why: str, *, absent: bool = False) -> Effect:
    """Fail an effect: proven absent (`absent`), or a `pure` effect or an undo without attempts left."""
    effect, attempts = get(log.tx, log.uid, id), attempts_of(log.tx, log.uid, id)
    last = attempts[-1]
    if absent:
        log.tx.send("attempt.rule_absent", uid=log.uid, effect_id=id, number=last.number, now=log.tx.now)
    error = encode({"code": "not-done", "message": why}) if absent or last.error is None else encode(last.error)
    failed = AttemptResult(outcome=AttemptOutcome.FAILED, error=error)
    move(log, effect, EffectState.FAILED, "effect.failed", outcome=failed, attempt=last.number, why=why)
    return get(log.tx, log.uid, id)


@holder_move
def record_compensation(log: Log, id: str, *, by_effect: str) -> Effect:
    """Record that the undo of an effect was acknowledged."""
    effect = get(log.tx, log.uid, id)
    if get(log.tx, log.uid, by_effect).state != EffectState.ACKNOWLEDGED:
        raise IllegalMove(f"The undo {by_effect} of effect {id} is not acknowledged.")
    move(log, effect, EffectState.COMPENSATED, "effect.compensated", undo=by_effect)
    log.tx.send("effect.end_undo", uid=log.uid, id=id)
    return get(log.tx, log.uid, id)


@outsider_move
def request_undo(log: Log, id: str, *, because: str) -> Effect:
    """Request the undo of an effect. A second request while one is open changes nothing."""
    check_name("The name of the person", log.actor)
    if not because.strip():
        raise ConfigError("An undo needs a reason.", hint="Give one with --because.")
    check_text("The reason", because)
    effect = get(log.tx, log.uid, id)
    if log.head.status in TERMINAL:
        raise IllegalMove(
            f"Session {log.head.id} is {log.head.status}; its effects can no longer be undone.",
            hint="Undo it in a session of its own.",
        )
    if effect.state != EffectState.ACKNOWLEDGED or effect.position[0] == "undo":
        raise IllegalMove(
            f"Effect {id} is {effect.state}; only an acknowledged effect that is not an undo can be undone."
        )
    if effect.undo_requested_at is None:
        log.tx.send("effect.ask_undo", uid=log.uid, id=id, by=log.actor, because=because, now=log.tx.now)
        row = {"id": id, "undo_requested_at": log.tx.now, "undo_by": log.actor, "undo_because": because}
        rows = {"effect": [row], "session": session.make_ready(log)}
        log.append("effect.undo_requested", {"because": because}, rows=rows, effect_id=id)
    return get(log.tx, log.uid, id)


@holder_move
def record_undo_failure(log: Log, id: str, why: str) -> None:
    """End a request to undo that failed; the effect stays as it was."""
    log.tx.send("effect.end_undo", uid=log.uid, id=id)
    row = {"id": id, "undo_requested_at": None}
    log.append("effect.undo_failed", {"why": why}, rows={"effect": [row]}, effect_id=id)


def unfinished(tx: StoreTransaction, uid: str) -> list[Effect]:
    """Effects of a session that are not settled, or whose undo was requested."""
    found = [Effect.from_row(row) for row in tx.all("effect.left", uid=uid, limit=MANY)]
    return sorted(found, key=lambda one: one.number)  # sorting in SQL would scan all effects of the session


def undos(tx: StoreTransaction, effect: Effect) -> list[Effect]:
    """The undos of an effect, acknowledged or not, in order."""
    position = encode(["undo", effect.id])
    rows = tx.all("effect.undos", uid=effect.session_uid, position=position, limit=MANY)
    return [Effect.from_row(row) for row in rows]


def early_undos(tx: StoreTransaction, effect: Effect, before: int) -> int:
    """How many undos of an effect were acknowledged but dispatched before a time, and so prove nothing."""
    done = [one for one in undos(tx, effect) if one.state == EffectState.ACKNOWLEDGED]
    return sum(attempts_of(tx, one.session_uid, one.id)[-1].dispatched_at < before for one in done)
