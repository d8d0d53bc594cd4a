"""An effect: one intended action on the outside world, its attempts, and its replay rule.

    plan      one transaction: the holder's epoch; the intent, its digest, its key, its replay rule
    gate      allow, ask or deny; asking binds an approval to the digest of exactly what will be done
    dispatch  one synced transaction: the holder's epoch, the approval; the attempt is in the ledger before it begins
    act       the lease's deadline once more, then the tool runs and is given the key
    settle    one transaction, fenced by the attempt: the outcome

A process may die between any two lines. What the last durable line allows is decided in `recovery`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar

import msgspec

from perdure.domain.record import Record
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
NOT_BEGUN = "not-begun"  # the code in the error of an attempt that was dispatched and whose act never began


class Replay(StrEnum):
    """What may be done with an effect whose outcome is unknown."""

    PURE = "pure"
    IDEMPOTENT = "idempotent"
    PROBE = "probe"
    COMPENSATE = "compensate"
    ESCALATE = "escalate"
    JOINT = "joint"


class EffectReach(StrEnum):
    """How far an effect reaches: the record only, a model, the session's folder, this machine, or beyond it."""

    NONE = "none"
    MODEL = "model"
    WORKSPACE = "workspace"
    MACHINE = "machine"
    OUTSIDE = "outside"


class AttemptOutcome(StrEnum):
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Verdict(StrEnum):
    """A person's verdict on an effect in doubt."""

    HAPPENED = "happened"
    ABSENT = "absent"
    ABANDON = "abandon"


class Effect(Record, frozen=True):
    """A row of `effect`. `number` is the event that planned it, `settled_number` the one that settled it.

    `leases` are the resources it needs. `restore_epoch` says in which one its outcome was taken as unknown, though it
    was not dispatched here. `replay`, `inflight`, `key_ttl` and `retry` are the rule its tool declared when it was
    planned; rows older than the last three columns have null there, and the loaded code decides.
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
    inflight: int | None
    key_ttl: int | None
    retry: int | None
    reach: str | None = None  # how far its tool reaches; null in rows that are older than the column


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
    heartbeat_at: int | None = None  # when its tool last reported that it is still running
    progress: str | None = None  # what it reported
    policy_version: str = "0"  # the policy it was dispatched under; 0: none was set
    rule: str | None = None  # the rule of that policy that decided


class Rule(msgspec.Struct, frozen=True):
    """What a tool declares about being asked again; times in microseconds, `retry` counts all attempts.

    `note` says in words where the rule that decides differs from the one of the loaded code.
    """

    replay: Replay
    inflight: int
    retry: int
    key_ttl: int | None
    can_probe: bool
    can_undo: bool
    note: str = ""


def idempotency_key(session_uid: str, position: Any, tool: str, arguments: Any, generation: int) -> str:
    """The same call asked again after a crash has the same key; two intended equal calls have two."""
    return digest(canonical([session_uid, position, tool, arguments, generation]))


def intent_digest(tool: str, arguments: Any, targets: Any) -> str:
    """What an approval is bound to: exactly what will be done."""
    return digest(canonical([tool, arguments, targets]))


def attempts_made(attempts: list[Attempt]) -> int:
    """How many acts are known to have begun, or may have: what `retry` limits."""
    return sum(attempt.worker != PRESUMED and not _never_began(attempt) for attempt in attempts)


def _never_began(attempt: Attempt) -> bool:
    return isinstance(attempt.error, dict) and attempt.error.get("code") == NOT_BEGUN


def earlier_unknown(attempts: list[Attempt]) -> bool:
    """Whether an attempt before the last may have happened: nothing has said since then that it is absent."""
    for attempt in reversed(attempts[:-1]):
        if attempt.outcome in (None, AttemptOutcome.UNKNOWN):
            return True
        if attempt.outcome == AttemptOutcome.ABSENT and not _never_began(attempt):
            return False
    return False


def next_generation(generation: int, retry: int) -> int:
    """The generation after a failure that a retry of the session repeats: the next multiple of `retry`.

    `retry` limits the generations of an effect that is undone, and counts them from such a multiple.
    """
    return (generation // retry + 1) * retry


def attempts_allowed(effect: Effect, retry: int) -> int:
    """The smaller of the `retry` recorded with the plan and the one of the loaded code."""
    return retry if effect.retry is None else min(effect.retry, retry)
