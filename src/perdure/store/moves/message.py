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
from perdure.domain.inbox import InboxMode
from perdure.domain.record import same_json
from perdure.domain.wait import Wait, WaitKind
from perdure.store.move import Log, Transaction, holder_move
from perdure.store.moves import artifact, inbox, usage, wait
from perdure.store.moves import effect as effects
from perdure.store.moves.intent import Dispatch, Intent, Outcome
from perdure.store.moves.session_end import CLOSED


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
def hear(log: Log, *, mode: InboxMode | None = None) -> list[tuple[int, int, dict[str, Any]]]:
    """Let messages join, each once; returns their lines with number and time."""
    promoted = inbox.promote.on(log, mode=mode)
    return [(one.promoted_as or 0, log.tx.now, inbox.line(one)) for one in promoted]


@holder_move
def rest(log: Log, id: str, detail: Any = None, unknown: Sequence[str] = (), coming: Sequence[str] = ()) -> list[str]:
    """Wait for the next message, for a person's word on what is in doubt, and for effects of the line (`coming`).

    Returns the waits; none if there is something to hear already: a message, or what became of one of `unknown`. A
    rest that a run left open when it was killed is the same rest.
    """
    settled = (one.settled_at for id in unknown if (one := effects.maybe(log.tx, log.uid, id)) is not None)
    if inbox.unread(log.tx, log.uid, limit=1) or any(at is not None for at in settled):
        return []
    asked = wait.open_of_session(log.tx, log.uid)
    left = [one for one in asked if _is_rest(one) and same_json(one.detail, detail)][:1]
    _rise(log, [one for one in asked if one not in left])
    waits = left or [wait.open_.on(log, id, WaitKind.INPUT, detail=detail)]
    waits += [wait.open_for_effect.on(log, one) for one in coming]
    waits += [one for one in asked if one.kind == WaitKind.DOUBT]
    return [one.id for one in waits if one.resolved_at is None]


@holder_move
def rise(log: Log) -> None:
    """It goes on though no message came: nobody needs to send one any more."""
    _rise(log, rests(log.tx, log.uid))


def _rise(log: Log, asked: list[Wait]) -> None:
    log.actor, actor = CLOSED, log.actor
    for one in asked:
        if _is_rest(one):
            wait.settle(log, one, None)
    log.actor = actor


def rests(tx: Transaction, uid: str) -> list[Wait]:
    """The open waits for a message."""
    return [one for one in wait.open_of_kind(tx, uid, WaitKind.INPUT) if _is_rest(one)]


def _is_rest(asked: Wait) -> bool:
    return asked.kind == WaitKind.INPUT and asked.ref is None  # a question has a `ref`


def between(tx: Transaction, uid: str, first: int, through: int = 2**62, *, limit: int = 100_000) -> list[Event]:
    """The lines of a transcript from one event to another, in order."""
    rows = tx.all("event.messages", uid=uid, first=first, through=through, limit=limit)
    return [Event.from_row(row) for row in rows]
