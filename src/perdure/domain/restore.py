"""A restore: the store was put back to an earlier time, and the outside world was not.

What a session had begun after that time is no longer in its ledger, but it may have happened. So until a person
releases the restore, nothing is dispatched as if for the first time: the first dispatch of every effect of a session
that was alive then is taken as one whose outcome is unknown, and its replay rule decides (`domain.recovery_decision`).

Its sign in the ledger is an attempt without a worker: `presumed` when the store was put back, over since the restore
began, outcome unknown. The effect's own late outcome, should it still come, settles it like any other attempt.
"""

from __future__ import annotations

from enum import StrEnum

from perdure.domain.effect import PRESUMED, SETTLED, Attempt, AttemptOutcome, Effect, EffectState, Replay, Rule
from perdure.domain.lease import RESTORE_SHIFT
from perdure.domain.record import Record


class LossUnknown(Exception):
    """Whether a session lost anything when another server took over is not known yet; it may be soon."""


class Cause(StrEnum):
    """How it is known."""

    DECLARED = "declared"
    WITNESS = "witness"
    TIMELINE = "timeline"


class Restore(Record, frozen=True):
    """A row of `restore`. `rewound_to` is the newest moment that the restored store knows.

    `timeline` is the server's new history where the old one led to it: it may turn out to have been a failover.
    """

    epoch: int
    began_at: int
    rewound_to: int
    cause: str
    detail: str | None
    released_at: int | None
    released_by: str | None
    released_because: str | None
    timeline: str | None = None


def may_have_happened(effect: Effect, attempts: list[Attempt], restore: Restore, rule: Rule) -> bool:
    """Whether an effect that the ledger takes for not dispatched may have been, in the time that was lost.

    An undo may always be done again. A `compensate` effect may have had `retry` generations, and as many again in every
    earlier restore epoch: each is taken back, and the first that cannot have been there acts.
    """
    retry = effect.retry or rule.retry
    if effect.state in SETTLED or rule.replay in (Replay.PURE, Replay.JOINT) or effect.position[0] == "undo":
        return False
    if effect.state == EffectState.DISPATCHED and effect.doubted_at is not None:
        return False
    if effect.replay == Replay.COMPENSATE and effect.generation >= retry * restore.epoch:
        return False
    return all(attempt.epoch >> RESTORE_SHIFT < restore.epoch for attempt in attempts)


def presumed_attempt(effect: Effect, attempts: list[Attempt], restore: Restore, now: int) -> Attempt:
    """The attempt that may have been made."""
    return Attempt(
        effect.session_uid, effect.id, len(attempts) + 1, PRESUMED, restore.epoch << RESTORE_SHIFT,
        {"restore": restore.epoch}, None, restore.rewound_to, None, AttemptOutcome.UNKNOWN, None, None,
        restore.began_at, now,
    )  # fmt: skip
