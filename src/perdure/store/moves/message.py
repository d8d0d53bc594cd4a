"""Moves and reads of the transcript: the events of kind `message`.

Each is one transaction: a reply of a model is recorded together with the effect of the call, so that no reply is paid
for and not recorded; and a session waits for a message only if none was sent meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from perdure.clock import SECOND
from perdure.domain.event import Event
from perdure.domain.inbox import InboxMode
from perdure.domain.record import same_json
from perdure.domain.session import TERMINAL, SessionRecord
from perdure.domain.wait import Wait, WaitKind
from perdure.ids import decode
from perdure.store.move import Log, StoreTransaction, holder_move, outsider_move
from perdure.store.moves import artifact, inbox, interrupt, session, wait
from perdure.store.moves import effect as effects
from perdure.store.moves.artifact import ArtifactClaim
from perdure.store.moves.effect_input import AttemptResult, Dispatch, NewEffect
from perdure.store.moves.session_end import CLOSED, is_message_wait

DAY = 86_400 * SECOND
NEWEST = 1000  # events among which a note or an answer is searched


class ModelUsage(msgspec.Struct, frozen=True):
    """What a model call consumed."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost_micros: int = 0


@holder_move
def append_lines(
    log: Log, bodies: Sequence[Mapping[str, Any]], claims: Sequence[ArtifactClaim] = ()
) -> list[tuple[int, int]]:
    """Append lines to the transcript, all or none, and claim the bytes they name; returns their numbers and times."""
    for one in claims:
        artifact.claim(log, one)
    return [(log.append("message", body), log.tx.now) for body in bodies]


@holder_move
def record_reply(
    log: Log,
    intent: NewEffect,
    dispatch: Dispatch,
    outcome: AttemptResult,
    body: Mapping[str, Any] | None,
    spent: ModelUsage,
) -> tuple[int, int] | None:
    """Record a model call, its usage and its reply; returns the number and time of the reply's line."""
    if effects.get_or_none(log.tx, log.uid, intent.id) is None:
        effects.record.on(log, intent, dispatch, outcome, over=True)
    if body is None:
        return None
    rows = {"session": add_to_totals(log, spent, model_of(intent))}
    return log.append("message", body, rows=rows), log.tx.now


class CutReply(msgspec.Struct, frozen=True):
    """A model call that was interrupted: its effect, and what was received. `body` is None if that was nothing."""

    intent: NewEffect
    dispatch: Dispatch
    outcome: AttemptResult
    body: Mapping[str, Any] | None
    spent: ModelUsage


@holder_move
def end_turn(
    log: Log,
    bodies: Sequence[Mapping[str, Any]],
    note: Mapping[str, Any],
    claims: Sequence[ArtifactClaim] = (),
    *,
    cut: CutReply | None = None,
    at_rest: bool = False,
) -> list[tuple[int, int, Mapping[str, Any]]]:
    """End a turn that was interrupted, and remove the request: what was received of the reply, the results of its
    calls, the messages that were received before the request, and the note that it was stopped. Returns these lines.

    Waits that the turn left open are closed, except doubts. `at_rest`: the model had answered already, so that without
    such a message no turn has begun, and no note is added. A request that was withdrawn after the turn was stopped
    changes nothing.
    """
    lines: list[tuple[int, int, Mapping[str, Any]]] = []
    if cut is not None:
        written = record_reply.on(log, cut.intent, cut.dispatch, cut.outcome, cut.body, cut.spent)
        lines += [(*written, cut.body)] if written is not None and cut.body is not None else []
    results = append_lines.on(log, bodies, claims)
    lines += [(*at, body) for at, body in zip(results, bodies, strict=True)]
    messages = inbox.promote.on(log, until=interrupt.messages_before(log.tx, log.uid))
    lines += [(one.promoted_as or 0, log.tx.now, inbox.line(one)) for one in messages]
    if at_rest and not lines:
        interrupt.remove(log)
        return []
    _close_waits(log, [one for one in wait.open_of_session(log.tx, log.uid) if one.kind not in _KEPT])
    log.tx.run("session.request_interrupt", uid=log.uid, at=None)
    number = log.append("message", note, rows={"session": interrupt.cleared(log)})
    return [*lines, (number, log.tx.now, note)]


_KEPT = (WaitKind.DOUBT, WaitKind.PAUSED, WaitKind.APPROVAL)  # a refused effect closes its approval itself


@holder_move
def add_usage(log: Log, *, tokens_in: int, tokens_out: int, cost_micros: int, model: str = "") -> None:
    """Add what a model call cost to the session's totals."""
    totals = add_to_totals(log, ModelUsage(tokens_in, tokens_out, cost_micros), model)
    log.append("note", {"usage": [tokens_in, tokens_out, cost_micros]}, rows={"session": totals})


def model_of(intent: NewEffect) -> str:
    """The model that a call names."""
    said = decode(intent.intent)
    return str(said.get("model", ""))[:200] if isinstance(said, dict) else ""


def add_to_totals(log: Log, used: ModelUsage, model: str) -> dict[str, int]:
    """Add to the totals of a session's row and to those of the day; the caller appends the event with the former."""
    now = session.get(log.tx, log.uid)
    totals = {
        "tokens_in": now.tokens_in + used.tokens_in,
        "tokens_out": now.tokens_out + used.tokens_out,
        "cost_micros": now.cost_micros + used.cost_micros,
    }
    log.tx.run("session.use", uid=log.uid, **totals)
    day = log.tx.now - log.tx.now % DAY
    log.tx.send("model_usage.add", uid=log.uid, day=day, model=model, **msgspec.structs.asdict(used))
    return totals


@outsider_move
def add_note(log: Log, body: Mapping[str, Any], *, key: str) -> int | None:
    """Add a line from outside, once; it wakes no session. `body[key]` identifies it among the newest lines.

    Returns its number, or None if the session has ended: its log is closed.
    """
    for line in reversed(lines_between(log.tx, log.uid, max(1, log.cursor - NEWEST))):
        if isinstance(line.body, dict) and line.body.get(key) == body[key]:
            return line.number
    return None if log.head.status in TERMINAL else log.append("message", body)


@holder_move
def promote_messages(log: Log, *, mode: InboxMode | None = None) -> list[tuple[int, int, dict[str, Any]]]:
    """Append unread messages to the transcript, each once; returns their lines with number and time."""
    promoted = inbox.promote.on(log, mode=mode)
    return [(one.promoted_as or 0, log.tx.now, inbox.line(one)) for one in promoted]


@holder_move
def wait_for_message(
    log: Log, id: str, detail: Any = None, unknown: Sequence[str] = (), coming: Sequence[str] = ()
) -> list[str]:
    """Wait for the next message, for verdicts on effects in doubt, and for effects of the lineage (`coming`).

    Returns the waits; none if there is news already: a message, or the outcome of one of `unknown`. A wait that a
    killed run left open is used again.
    """
    settled = (one.settled_at for id in unknown if (one := effects.get_or_none(log.tx, log.uid, id)) is not None)
    if inbox.unread(log.tx, log.uid, limit=1) or any(at is not None for at in settled):
        return []
    asked = wait.open_of_session(log.tx, log.uid)
    left = [one for one in asked if is_message_wait(one) and same_json(one.detail, detail)][:1]
    _end_message_waits(log, [one for one in asked if one not in left])
    waits = left or [wait.open_.on(log, id, WaitKind.INPUT, detail=detail)]
    waits += [wait.open_for_effect.on(log, one) for one in coming]
    waits += [one for one in asked if one.kind == WaitKind.DOUBT]
    return [one.id for one in waits if one.resolved_at is None]


@holder_move
def end_message_waits(log: Log) -> None:
    """Close the open waits for a message: the session continues without one."""
    _end_message_waits(log, message_waits(log.tx, log.uid))


def _end_message_waits(log: Log, asked: list[Wait]) -> None:
    _close_waits(log, [one for one in asked if is_message_wait(one)])


def _close_waits(log: Log, asked: list[Wait]) -> None:
    log.actor, actor = CLOSED, log.actor
    for one in asked:
        wait.settle(log, one, None)
    log.actor = actor


def message_waits(tx: StoreTransaction, uid: str) -> list[Wait]:
    """The open waits for a message."""
    return [one for one in wait.open_of_kind(tx, uid, WaitKind.INPUT) if is_message_wait(one)]


def lines_between(
    tx: StoreTransaction, uid: str, first: int, through: int = 2**62, *, limit: int = 100_000
) -> list[Event]:
    """The lines of a transcript from one event to another, in order."""
    rows = tx.all("event.messages", uid=uid, first=first, through=through, limit=limit)
    return [Event.from_row(row) for row in rows]


def total_usage(tx: StoreTransaction, found: SessionRecord) -> ModelUsage:
    """What an agent's session consumed, with its sub-agents: their usage stands in the results of their calls."""
    total, after = [found.tokens_in, found.tokens_out, found.cost_micros], 0
    while page := lines_between(tx, found.uid, after + 1, limit=NEWEST):
        after = page[-1].number
        for line in page:
            body = line.body if isinstance(line.body, dict) else {}
            used = (body.get("usage") or {}) if body.get("role") == "tool" else {}
            total = [sum + used.get(name, 0) for sum, name in zip(total, ModelUsage.__struct_fields__, strict=True)]
    return ModelUsage(*total)


def last_answer(tx: StoreTransaction, found: SessionRecord) -> Any:
    """The newest answer in a transcript, of a branch also that of its parent: a typed answer, or the model's text."""
    through = found.cursor
    while True:
        for line in reversed(lines_between(tx, found.uid, max(1, through - NEWEST), through)):
            body = line.body if isinstance(line.body, dict) else {}
            if "output" in body:
                return body["output"]
            if body.get("role") == "assistant" and body.get("content"):
                return str(body["content"])
        if found.forked_from is None or found.forked_at is None:
            return ""
        through, found = found.forked_at, session.get(tx, found.forked_from)
