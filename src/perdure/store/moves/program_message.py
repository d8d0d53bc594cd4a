"""MessageBus that a program takes from its inbox: `s.receive()`.

    take      the message joins the transcript and becomes the result of the step, in one transaction
    wait      no message that fits has arrived: the wait is opened in the transaction that has seen this
    wake      a message that may fit resolves the waits for it (`inbox.receive`); the program then takes it

A process that dies before `take` leaves the message unread, and after it the message is the recorded result: it is
neither lost nor taken twice. Whether a message fits is decided by code of the user, before the transaction.
"""

from __future__ import annotations

from typing import Any

from perdure.domain.wait import Wait, WaitKind
from perdure.ids import encode
from perdure.store.move import Log, holder_move
from perdure.store.moves import inbox, step, wait


@holder_move
def take(log: Log, record: step.NewStep, message_id: str, wait_id: str) -> str | None:
    """Take a message; returns its body as JSON text, or None if it is not unread any more."""
    found = inbox.get(log.tx, log.uid, message_id)
    if found is None or found.promoted_as is not None:
        return None
    inbox.promote_one(log, found)
    for asked in wait.open_of_kind(log.tx, log.uid, WaitKind.INPUT):
        if asked.id == wait_id:  # a run that was killed left it open
            wait.settle(log, asked, {"message": message_id})
    return step.record_result(log, record, encode(found.body))


@holder_move
def wait_for_message(log: Log, wait_id: str, detail: Any, due_at: int | None, seen: int) -> Wait | None:
    """Wait for a message; None if one has arrived after `seen`, the sequence number of the newest that was read."""
    if any(one.sequence > seen for one in inbox.unread(log.tx, log.uid, limit=wait.MANY)):
        return None
    return wait.open_.on(log, wait_id, WaitKind.INPUT, detail=detail, due_at=due_at)
