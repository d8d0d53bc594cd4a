"""Moves and reads of the transcript: the events of kind `message`.

Each is one transaction: what a model said is recorded together with the effect of asking it, so there is no moment at
which an answer was paid for and is not on record; and a session comes to rest only if nothing was sent meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from perdure.domain.artifact import Retention
from perdure.domain.event import Event
from perdure.domain.wait import WaitKind
from perdure.store import artifact, inbox, usage, wait
from perdure.store import effect as effects
from perdure.store.intent import Dispatch, Intent, Outcome
from perdure.store.move import Log, Transaction, holder_move


class Claim(msgspec.Struct, frozen=True):
    """Bytes that a message names, durable already."""

    digest: str
    size: int
    kind: str = "text/plain"


class Spent(msgspec.Struct, frozen=True):
    """What a model call used."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost_micros: int = 0


@holder_move
def say(log: Log, bodies: Sequence[Mapping[str, Any]], claims: Sequence[Claim] = ()) -> list[tuple[int, int]]:
    """Add lines to the transcript, all or none, and claim the bytes they name; returns their numbers and times."""
    for one in claims:
        where = f"{one.digest[:2]}/{one.digest}"
        artifact.index.on(log, one.digest, kind=one.kind, size=one.size, location=where, retention=Retention.SESSION)
    return [(log.append("message", body), log.tx.now) for body in bodies]


@holder_move
def replied(
    log: Log, intent: Intent, dispatch: Dispatch, outcome: Outcome, body: Mapping[str, Any] | None, spent: Spent
) -> tuple[int, int] | None:
    """Record that a model was asked, what that cost, and what it said; returns the number and time of its line."""
    if effects.maybe(log.tx, log.uid, intent.id) is None:
        effects.record.on(log, intent, dispatch, outcome)
    if body is None:
        return None
    rows = {"session": usage.spend(log, *msgspec.structs.astuple(spent))}
    return log.append("message", body, rows=rows), log.tx.now


@holder_move
def rest(log: Log, id: str, detail: Any = None) -> bool:
    """Wait for the next message, unless one is here already."""
    if inbox.unread(log.tx, log.uid, limit=1):
        return False
    wait.open_.on(log, id, WaitKind.INPUT, detail=detail)
    return True


def between(tx: Transaction, uid: str, first: int, through: int = 2**62, *, limit: int = 100_000) -> list[Event]:
    """The lines of a transcript from one event to another, in order."""
    rows = tx.all("event.messages", uid=uid, first=first, through=through, limit=limit)
    return [Event.from_row(row) for row in rows]
