"""The control log: every change of the store's policy, exemptions, principals, tokens, queues, schedules and limits.

    append    adds a line in the transaction of the change, so both are written or neither
    verify    recomputes the chain from the rows

One chain for the whole store. A transaction that appends locks the log until it ends; it takes this lock last, after
the rows that it changes. A move that may run again after a commit whose outcome is unknown asks `was_written` first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perdure.domain import control_event
from perdure.domain.control_event import ControlEvent
from perdure.ids import check_text, digest, encode
from perdure.store.move import StoreTransaction
from perdure.store.moves import meta

LOCK = "control_log"
PAGE = 1000


def append(tx: StoreTransaction, kind: str, actor: str, body: Mapping[str, Any]) -> int:
    """Append one line and return its number. `actor` is the name of who made the change; `body` is what it is now.

    The authenticated identity of who made it is added to the body.
    """
    check_text("Who makes the change", actor)
    tx.one("meta.lock", key=LOCK)
    number, chain = end(tx)
    text = encode(({"identity": tx.identity} if tx.identity else {}) | dict(body))
    digest_ = digest(text)
    line = {"number": number + 1, "kind": kind, "actor": actor, "at": tx.now, "move_id": tx.move_id}
    chain = control_event.link(chain, number + 1, kind, actor, tx.now, tx.move_id, digest_)
    tx.run("control_event.insert", **line, body=text, digest=digest_, chain=chain)
    return number + 1


def was_written(tx: StoreTransaction) -> list[ControlEvent]:
    """The lines that this move has written: not empty if it runs again although it was committed."""
    return list(map(ControlEvent.from_row, tx.all("control_event.of_move", move_id=tx.move_id, limit=PAGE)))


def end(tx: StoreTransaction) -> tuple[int, str]:
    """The number and the chain of the newest line."""
    row = tx.one("control_event.last")
    return (row[0], row[1]) if row else (0, control_event.genesis(meta.get(tx, "store_id") or ""))


def verify(tx: StoreTransaction) -> tuple[int, str]:
    """Recompute the chain of the whole log; return its end, or raise `Damaged`."""
    number, chain = 0, control_event.genesis(meta.get(tx, "store_id") or "")
    while rows := tx.all("control_event.after", after=number, limit=PAGE):
        chain = control_event.verify(rows, previous=chain, after=number)
        number += len(rows)
    return number, chain


def listing(tx: StoreTransaction, *, kind: str | None = None, limit: int = 1000) -> Iterator[ControlEvent]:
    """The newest lines, the newest first."""
    for row in tx.all("control_event.newest", before=2**62, kind=kind, limit=limit):
        yield ControlEvent.from_row(row)


def newest_about(tx: StoreTransaction, kind: str, uid: str) -> ControlEvent | None:
    """The newest line of one kind whose body names this uid."""
    before = 2**62
    while rows := tx.all("control_event.newest", before=before, kind=kind, limit=PAGE):
        for line in map(ControlEvent.from_row, rows):
            if line.body.get("uid") == uid:
                return line
            before = line.number
    return None
