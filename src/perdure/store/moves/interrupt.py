"""Moves and reads of a request to interrupt: the session stops what it does now, and then waits for a person.

    request   recorded with who and when; a session that waits for a timer or a child becomes ready, so that it can stop
    stop      an agent has stopped: `message.end_turn` removes the request together with the last lines of the turn
    pause     a program has stopped: the request becomes a request to pause, when the session parks
    remove    nothing was under way any more

A request is removed in the transaction that records the stop. If the process is killed before, the next run finds the
request and stops; after, no later turn is stopped by it.
"""

from __future__ import annotations

from typing import Any

from perdure.domain.effect import Effect
from perdure.domain.event import Event
from perdure.domain.session import Status
from perdure.domain.wait import Wait, WaitKind
from perdure.store.move import Log, StoreTransaction, holder_move, outsider_move
from perdure.store.moves import approval, event, inbox, session, wait
from perdure.store.moves import effect as effects

UNATTENDED = frozenset({WaitKind.TIMER, WaitKind.CHILD, WaitKind.LEASE, WaitKind.EFFECT})  # no person ends these waits
INTERRUPTED = "interrupted"  # the code of an effect that was stopped or refused by an interrupt
UNKNOWN_USER = "an unknown user"


@outsider_move
def request(log: Log) -> bool:
    """Request that the session stops now. False, and nothing is recorded: it only waits for a person already."""
    session.refuse_finished(log)
    if log.head.interrupt_requested_at is not None:
        return True
    woken = {}
    if log.head.status == Status.WAITING:
        asked = wait.open_of_session(log.tx, log.uid)
        if any(map(is_rest, asked)) or not any(one.kind in UNATTENDED for one in asked):
            return False
        woken = session.make_ready(log)
    _set(log, log.tx.now, woken, messages=inbox.last_sequence(log.tx, log.uid))
    return True


@holder_move
def refuse(log: Log, effect_id: str, because: str) -> Effect:
    """Refuse a planned effect of a turn that was interrupted, and close its approval."""
    refused = effects.refuse.on(log, effect_id, INTERRUPTED, because)
    if refused.approval_id is not None:
        approval.lapse(log, refused.approval_id, because)
    return refused


@outsider_move
def withdraw(log: Log) -> None:
    """Withdraw a request that was not honoured yet."""
    remove(log)


def remove(log: Log) -> None:
    """Remove a request that is no longer needed."""
    if log.head.interrupt_requested_at is not None:
        _set(log, None, {}, over=True)


def become_pause(log: Log) -> None:
    """Replace a request to interrupt by a request to pause."""
    if log.head.interrupt_requested_at is None:
        return
    log.tx.run("session.request_interrupt", uid=log.uid, at=None)
    rows = cleared(log)
    if log.head.pause_requested_at is None:
        log.tx.run("session.request_pause", uid=log.uid, at=log.tx.now)
        rows["pause_requested_at"] = log.tx.now
    log.append("pause.requested", {"interrupt": True}, rows={"session": rows}, actor=requester(log.tx, log.uid))


def _set(log: Log, at: int | None, more: dict[str, Any], **body: int) -> None:
    log.tx.run("session.request_interrupt", uid=log.uid, at=at)
    rows = {"interrupt_requested_at": at} | more
    if at is None:
        rows |= cleared(log)
    log.append("interrupt.requested", body, rows={"session": rows})


def cleared(log: Log) -> dict[str, int | None]:
    """The column of a removed request, for the event; its holder learns of it with the commit."""
    if (holder := log.holder) is not None:
        log.tx.after_commit.append(lambda: setattr(holder, "interrupt_requested", False))
    return {"interrupt_requested_at": None}


def is_rest(asked: Wait) -> bool:
    """Whether a session with this wait is at rest: an agent waits for a message, or it is paused."""
    waits_for_message = asked.kind == WaitKind.INPUT and asked.ref is None and not asked.is_of_program
    return waits_for_message or asked.kind == WaitKind.PAUSED


def pending(tx: StoreTransaction, uid: str) -> str | None:
    """Who requested an interrupt that has not been honoured yet."""
    row = tx.one("session.interrupt_requested_at", uid=uid)
    return None if row is None or row[0] is None else requester(tx, uid)


def requester(tx: StoreTransaction, uid: str) -> str:
    """Who made the newest request to interrupt."""
    found = _newest(tx, uid)
    return UNKNOWN_USER if found is None else found.actor


def messages_before(tx: StoreTransaction, uid: str) -> int:
    """The sequence of the last message that was received before the newest request."""
    found = _newest(tx, uid)
    return 0 if found is None or not isinstance(found.body, dict) else int(found.body.get("messages", 0))


def _newest(tx: StoreTransaction, uid: str) -> Event | None:
    number = event.newest_of(tx, uid, "interrupt.requested")
    return event.last(tx, uid, limit=1, through=number)[0] if number else None
