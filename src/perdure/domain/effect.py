"""An effect: one intended action on the outside world, its attempts, and what may be done when nobody knows.

    plan      one transaction: the holder's epoch; the intent, its digest, its key, its replay rule
    gate      allow, ask or deny; asking binds an approval to the digest of exactly what will be done
    dispatch  one synced transaction: the holder's epoch, the approval; the attempt is in the ledger before it begins
    act       the lease's deadline once more, then the tool runs and is given the key
    settle    one transaction, fenced by the attempt: what came of it

A process may die between any two lines. What the last durable line allows is decided here, by `recover`, and nowhere
else; it is pure, so what recovery *would* do can be shown before it is done.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar

import msgspec

from perdure.clock import SECOND
from perdure.domain.record import Record
from perdure.domain.worker import Life
from perdure.ids import canonical, digest


class EffectState(StrEnum):
    PLANNED = "planned"
    DISPATCHED = "dispatched"
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    REFUSED = "refused"
    COMPENSATED = "compensated"
    SUPERSEDED = "superseded"


MOVES: dict[EffectState, frozenset[EffectState]] = {
    EffectState.PLANNED: frozenset({EffectState.DISPATCHED, EffectState.REFUSED, EffectState.ACKNOWLEDGED}),
    EffectState.DISPATCHED: frozenset(
        {EffectState.ACKNOWLEDGED, EffectState.PLANNED, EffectState.FAILED, EffectState.COMPENSATED}
    ),
    EffectState.ACKNOWLEDGED: frozenset({EffectState.COMPENSATED}),
    EffectState.COMPENSATED: frozenset({EffectState.SUPERSEDED}),
    EffectState.FAILED: frozenset(),
    EffectState.REFUSED: frozenset(),
    EffectState.SUPERSEDED: frozenset(),
}

SETTLED = frozenset(EffectState) - {EffectState.PLANNED, EffectState.DISPATCHED}
PRESUMED = "presumed"  # the worker of an attempt that may have been made in a time that a restore took away


class Replay(StrEnum):
    """What may be done with an effect whose outcome is unknown."""

    PURE = "pure"
    IDEMPOTENT = "idempotent"
    PROBE = "probe"
    COMPENSATE = "compensate"
    ESCALATE = "escalate"
    JOINT = "joint"


class AttemptOutcome(StrEnum):
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Verdict(StrEnum):
    """What a person may say of an effect in doubt."""

    HAPPENED = "happened"
    ABSENT = "absent"
    ABANDON = "abandon"


class Effect(Record, frozen=True):
    """A row of `effect`. `number` is the event that planned it, `settled_number` the one that settled it.

    `leases` are the resources it needs. `restore_epoch` says in which one its outcome was taken as unknown, though it
    was not dispatched here.
    """

    json_columns: ClassVar[frozenset[str]] = frozenset({"position", "targets", "intent", "error", "leases"})

    session_uid: str
    id: str
    task_id: str | None
    position: Any
    generation: int
    tool: str
    replay: str
    targets: Any
    intent: Any
    intent_digest: str
    idempotency_key: str
    state: str
    reference: str | None
    result: str | None
    artifact: str | None
    error: Any
    approval_id: str | None
    policy_version: str | None
    rule: str | None
    exemption_id: str | None
    supersedes: str | None
    verdict: str | None
    verdict_by: str | None
    verdict_because: str | None
    planned_at: int
    settled_at: int | None
    doubted_at: int | None
    doubt: str | None
    number: int
    settled_number: int | None
    leases: Any
    undo_requested_at: int | None
    undo_by: str | None
    undo_because: str | None
    restore_epoch: int | None


class Attempt(Record, frozen=True):
    """A row of `attempt`: one dispatch. `ended_at` is when its act is known to have ended, however it ended.

    `ended_boot` is the same by the boot clock of the machine that found out: the clock's name and its microseconds.
    """

    json_columns: ClassVar[frozenset[str]] = frozenset({"process", "error", "usage"})

    session_uid: str
    effect_id: str
    number: int
    worker: str
    epoch: int
    process: Any
    sandbox: str | None
    dispatched_at: int
    deadline_at: int | None
    outcome: str | None
    error: Any
    usage: Any
    ended_at: int | None
    settled_at: int | None
    ended_boot: str | None = None


class Rule(msgspec.Struct, frozen=True):
    """What a tool declares about being asked again; times in microseconds, `retry` counts all attempts."""

    replay: Replay
    inflight: int
    retry: int
    key_ttl: int | None
    can_probe: bool
    can_undo: bool


class Action(StrEnum):
    """What recovery does with an effect."""

    NOTHING = "nothing"
    DISPATCH = "dispatch"
    RUN_AGAIN = "run again"
    PROBE = "probe"
    UNDO = "undo"
    PRESUME = "presume"
    FAIL = "fail"
    ASK = "ask"


class Course(msgspec.Struct, frozen=True):
    """An action, not before a time, and the reason in one sentence."""

    action: Action
    why: str
    not_before: int | None = None


def idempotency_key(session_uid: str, position: Any, tool: str, arguments: Any, generation: int) -> str:
    """The same call asked again after a crash has the same key; two intended equal calls have two."""
    return digest(canonical([session_uid, position, tool, arguments, generation]))


def intent_digest(tool: str, arguments: Any, targets: Any) -> str:
    """What an approval is bound to: exactly what will be done."""
    return digest(canonical([tool, arguments, targets]))


def recover(effect: Effect, attempts: list[Attempt], rule: Rule, now: int, life: Life = Life.CANNOT_TELL) -> Course:
    """The replay table: what the last durable state of an effect allows.

    `life` is that of the process of the last attempt; it matters only while nobody knows whether the act has ended.
    """
    if effect.state in SETTLED:
        return Course(Action.NOTHING, f"It is {effect.state}; its outcome is returned as recorded.")
    last = attempts[-1] if attempts else None
    if effect.state == EffectState.PLANNED:
        return _planned(effect, last, rule, now, life)
    assert last is not None
    if effect.verdict is None and effect.doubted_at is not None:
        return Course(Action.ASK, effect.doubt or "Nobody can say what came of it.")
    match rule.replay:
        case Replay.PURE:
            if last.outcome == AttemptOutcome.UNKNOWN and len(attempts) >= rule.retry:
                return Course(Action.FAIL, f"It raised in each of {len(attempts)} attempts.")
            return Course(Action.RUN_AGAIN, "It changes nothing outside, so it may run again.")
        case Replay.IDEMPOTENT:
            return _idempotent(attempts, rule, now)
        case Replay.PROBE:
            return Course(Action.PROBE, "Its outcome is unknown; the probe is asked.")
        case Replay.COMPENSATE:
            why = "Its outcome is unknown; it is undone, and then planned anew."
            return _counted(Action.UNDO, last, rule, why, now, life)
        case _:
            why = "The store was put back; it may have been done before" if last.worker == PRESUMED else _UNKNOWN
            return Course(Action.ASK, f"{why}, and nothing but a person can tell.")


_UNKNOWN = "Its outcome is unknown"


def tried(attempts: list[Attempt]) -> int:
    """How many attempts are known to have been made."""
    return sum(attempt.worker != PRESUMED for attempt in attempts)


def _planned(effect: Effect, last: Attempt | None, rule: Rule, now: int, life: Life) -> Course:
    if last is None:
        return Course(Action.DISPATCH, "It was planned and never dispatched.")
    if effect.verdict != Verdict.ABSENT:
        return Course(Action.DISPATCH, "It is known not to have happened, and attempts are left.")
    why = f"{effect.verdict_by} says that it did not happen."
    if last.ended_at is None and life is Life.CANNOT_TELL:
        return Course(Action.DISPATCH, why, (last.settled_at or now) + rule.inflight)
    return _counted(Action.DISPATCH, last, rule, why, now, life)


def _idempotent(attempts: list[Attempt], rule: Rule, now: int) -> Course:
    young = rule.key_ttl is None or now - attempts[0].dispatched_at < rule.key_ttl
    if young and tried(attempts) < rule.retry:
        return Course(Action.RUN_AGAIN, "Its outcome is unknown; the same key makes a second request harmless.")
    spent = f"{tried(attempts)} attempts are spent" if young else "its key may have been forgotten outside"
    if rule.can_probe:
        return Course(Action.PROBE, f"Its outcome is unknown and {spent}; the probe is asked.")
    return Course(Action.ASK, f"Its outcome is unknown and {spent}.")


def _counted(action: Action, last: Attempt, rule: Rule, why: str, now: int, life: Life) -> Course:
    """A request in flight may still land: these count only `inflight` after the act is known to have ended.

    An act that is known to be under way is looked at again later; a person is asked only where nobody can know.
    """
    if last.ended_at is not None:
        return Course(action, why, last.ended_at + rule.inflight)
    if life is Life.ALIVE:
        return Course(action, f"Attempt {last.number} is still under way.", now + max(rule.inflight, SECOND))
    if life is Life.DEAD:
        return Course(action, why, now + rule.inflight)
    return Course(Action.ASK, "Nobody can tell whether its last attempt is still under way.")


def after_absent(attempts: list[Attempt], rule: Rule, now: int, life: Life = Life.CANNOT_TELL) -> Course:
    """What a probe's `absent` allows. It is not final: a request in flight may still land."""
    counted = _counted(Action.PROBE, attempts[-1], rule, "The probe found nothing yet; it may still land.", now, life)
    if counted.action is Action.ASK or (counted.not_before or 0) > now:
        return counted
    if tried(attempts) >= rule.retry:
        return Course(Action.FAIL, f"The probe found nothing, and {tried(attempts)} attempts are spent.")
    return Course(Action.DISPATCH, "The probe found nothing, and nothing can be in flight any more.")
