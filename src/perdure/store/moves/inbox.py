"""Moves and reads of the inbox: received once under the caller's own id, promoted once, in order."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.domain.inbox import InboxMessage, InboxMode
from perdure.domain.json_schema import mismatch
from perdure.domain.record import same_json
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import ConfigError, Conflict
from perdure.ids import check_name, decode, encode
from perdure.store.move import Log, StoreTransaction, expect_one, holder_move, outsider_move
from perdure.store.moves import session, wait


@outsider_move
def receive(log: Log, id: str, body: Any, mode: InboxMode = InboxMode.QUEUE) -> InboxMessage:
    """Receive a message. An exact retry gets the same receipt; other content under the same id is refused."""
    check_name("The message id", id)
    stored = encode(body)
    if there := get(log.tx, log.uid, id):
        if (there.mode, there.sender) == (mode, log.actor) and same_json(there.body, body):
            return there
        raise Conflict(f"Message {id} of session {log.head.id} has been received already, with other content.")
    session.refuse_finished(log)
    session.set_archived(log, None)
    woken, newest = _waits_for(log, body), last_sequence(log.tx, log.uid)
    log.tx.run(
        "inbox.insert",
        uid=log.uid, id=id, sequence=newest + 1, mode=mode, body=stored, sender=log.actor, now=log.tx.now,
    )  # fmt: skip
    log.append("inbox.received", {"id": id, "mode": mode, "sequence": newest + 1, "message": body})
    for asked in woken:
        wait.settle(log, asked, {"message": id})
    return InboxMessage(log.uid, id, newest + 1, mode, decode(stored), log.actor, log.tx.now, None)


def _waits_for(log: Log, body: Any) -> list[Wait]:
    """The open waits for a message that this one may fit. Refused if there are some, and it fits none of them."""
    asked = [one for one in wait.open_of_kind(log.tx, log.uid, WaitKind.INPUT) if one.ref is None]
    unfit = {one.id: why for one in asked if (why := mismatch(schema_of(one), body)) is not None}
    if asked and len(unfit) == len(asked):
        wanted = " or ".join(sorted({str(one.detail.get("type")) for one in asked}))
        raise ConfigError(
            f"Session {log.head.id} waits for a message of type {wanted}, and {next(iter(unfit.values()))}; "
            "nothing was sent."
        )
    return [one for one in asked if one.id not in unfit]


def schema_of(asked: Wait) -> dict[str, Any]:
    """The JSON Schema of the messages that a wait is for; an empty one accepts all."""
    found = asked.detail.get("schema") if isinstance(asked.detail, dict) else None
    return found if isinstance(found, dict) else {}


@holder_move
def promote(log: Log, *, mode: InboxMode | None = None, limit: int = 100, until: int = 2**62) -> list[InboxMessage]:
    """Append unread messages, up to sequence `until`, to the transcript: each once, in the order of their arrival."""
    found = unread(log.tx, log.uid, mode=mode, limit=limit)
    return [promote_one(log, message) for message in found if message.sequence <= until]


def promote_one(log: Log, message: InboxMessage) -> InboxMessage:
    """Append one unread message to the transcript."""
    number = log.append("message", line(message), actor=message.sender)
    changed = log.tx.run("inbox.promote", uid=log.uid, id=message.id, number=number)
    expect_one(changed, f"Message {message.id} was promoted already.")
    return msgspec.structs.replace(message, promoted_as=number)


def last_sequence(tx: StoreTransaction, uid: str) -> int:
    """The sequence of the newest message; 0 if there is none."""
    (newest,) = tx.one("inbox.last_sequence", uid=uid) or (0,)
    return int(newest or 0)


def line(message: InboxMessage) -> dict[str, Any]:
    """A message as a line of the transcript."""
    return {"role": "user", "content": message.body, "inbox": message.id}


def promoted(tx: StoreTransaction, uid: str) -> set[str]:
    """The ids of the messages that joined the transcript."""
    return {row[0] for row in tx.all("inbox.promoted", uid=uid, limit=2**31)}


def get(tx: StoreTransaction, uid: str, id: str) -> InboxMessage | None:
    row = tx.one("inbox.get", uid=uid, id=id)
    return InboxMessage.from_row(row) if row else None


def unread(tx: StoreTransaction, uid: str, *, mode: InboxMode | None = None, limit: int = 100) -> list[InboxMessage]:
    return [InboxMessage.from_row(row) for row in tx.all("inbox.unread", uid=uid, mode=mode, limit=limit)]
