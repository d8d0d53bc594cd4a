"""Moves and reads of a session's log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from perdure.domain import event as event_domain
from perdure.domain.event import Event
from perdure.domain.lease import Holder
from perdure.domain.session import SessionRecord
from perdure.domain.state import SessionState, fold
from perdure.errors import ConfigError, Damaged, NotFound
from perdure.store.hot_move import GuardedWrite, guarded_write
from perdure.store.invocation import described
from perdure.store.move import Log, Move, StoreTransaction, hold, outsider_move
from perdure.store.moves.session import get

PAGE = 1000


def outside_mark(log: Log) -> dict[str, bool] | None:
    """What marks an event of an outsider, where holders write events of the same kind."""
    return {"outside": True} if log.holder is None else None


@described
def append(
    holder: Holder, kind: str, body: Mapping[str, Any] | None = None, *, effect_id: str | None = None
) -> Move[int]:
    """Append one event as the session's holder and return its number; a hot move."""
    if body and "rows" in body:
        raise ConfigError("The body of an event cannot have the key `rows`: it holds the columns that a move changed.")

    def run(tx: StoreTransaction) -> int:
        log = hold(tx, holder)
        number = log.append(kind, body, effect_id=effect_id)
        log.close()
        return number

    def hot(tx: StoreTransaction) -> GuardedWrite[int]:
        parts, head = ("session.advance_held", "event.insert"), holder.head
        answer, said = head[0] + 1, body or {}
        return guarded_write(tx, holder, head, "event.append_held", parts, kind, said, answer, {}, effect_id=effect_id)

    return Move("event.append", "holder", run, hot)


@outsider_move
def erase(log: Log, numbers: Sequence[int], *, because: str) -> int:
    """Erase the bodies of events, for a reason. Their digests stay, and the chain still verifies.

    Those of retries stay: they say which records count.
    """
    erased = [number for number in numbers if log.tx.run("event.erase", uid=log.uid, number=number)]
    if erased:
        for uid in _line_below(log.tx, log.uid):  # a checkpoint may contain what was erased
            log.tx.run("checkpoint.trim", uid=uid, after=0, before=2**62)
        log.append("event.erased", {"numbers": erased, "because": because})
    return len(erased)


def _line_below(tx: StoreTransaction, uid: str) -> Iterator[str]:
    """A session and all branches of it."""
    yield uid
    for row in tx.all("session.branches", uid=uid, limit=1_000_000):
        yield from _line_below(tx, row[0])


def after(tx: StoreTransaction, uid: str, number: int = 0, *, limit: int = PAGE) -> list[Event]:
    """Events after `number`, in order."""
    return [Event.from_row(row) for row in tx.all("event.after", uid=uid, after=number, limit=limit)]


def last(tx: StoreTransaction, uid: str, *, limit: int, through: int = 2**62) -> list[Event]:
    """The newest events up to `through`, in order."""
    rows = tx.all("event.last", uid=uid, through=through, limit=limit)
    return [Event.from_row(row) for row in reversed(rows)]


def newest_of(tx: StoreTransaction, uid: str, kind: str, *, through: int = 2**62) -> int:
    """The number of the newest event of one kind; 0 when there is none."""
    row = tx.one("event.newest_of", uid=uid, kind=kind, through=through)
    return int(row[0]) if row else 0


def is_receiver(tx: StoreTransaction, uid: str) -> bool:
    """Whether a session began with a program that may receive messages."""
    first = after(tx, uid, 0, limit=1)
    return bool(first) and isinstance(first[0].body, dict) and first[0].body.get("receives") is True


def of_kind(tx: StoreTransaction, uid: str, kind: str, *, through: int = 2**62) -> list[Event]:
    """The events of one kind, up to a number, in order."""
    return [Event.from_row(row) for row in tx.all("event.of_kind", uid=uid, kind=kind, through=through, limit=2**31)]


def recoveries(tx: StoreTransaction, uid: str, effect_id: str, *, limit: int) -> list[Event]:
    """The last findings of recovery about one effect, in order: what it found, and what its probe answered."""
    found = tx.all("event.recoveries", uid=uid, effect_id=effect_id, limit=limit)
    return [Event.from_row(row) for row in reversed(found)]


def imports(tx: StoreTransaction, uid: str) -> list[Event]:
    """The events of a session's imports into this store, in order."""
    return [one for one in notes(tx, uid) if isinstance(one.body, dict) and "moved" in one.body]


def notes(tx: StoreTransaction, uid: str) -> list[Event]:
    """The notes in a session's log, in order."""
    return [Event.from_row(row) for row in tx.all("event.notes", uid=uid, limit=2**31)]


def restart_at(tx: StoreTransaction, session: SessionRecord, number: int) -> tuple[int, Any]:
    """The restart number of a session after event `number`, and the arguments of that run."""
    if not 1 <= number <= session.cursor:
        raise NotFound(f"Session {session.id} has events 1 to {session.cursor}, and no event {number}.")
    begun = newest_of(tx, session.uid, "session.restarted", through=number) if session.restart_number else 0
    if begun:
        row = after(tx, session.uid, begun - 1, limit=1)[0].body["rows"]["session"]
        return row["restart_number"], row["restart_arguments"]
    if session.forked_from is not None and session.forked_at is not None:
        return restart_at(tx, get(tx, session.forked_from), session.forked_at)
    return 0, None


def verify(tx: StoreTransaction, uid: str) -> SessionRecord:
    """Check a session's whole chain against its row; return the row, or raise `Damaged`."""
    session = get(tx, uid)
    chain, number = event_domain.genesis(uid), 0
    for page in _pages(tx, uid, 2**62):
        chain = event_domain.verify(uid, page, previous=chain, after=number)
        number += len(page)
    if (chain, number) != (session.chain, session.cursor):
        raise Damaged(f"The log of session {session.id} does not end at the event that its row names.")
    return session


def state_at(tx: StoreTransaction, uid: str, number: int | None = None) -> SessionState:
    """The state of a session after event `number` (by default now), derived from its log."""
    session = get(tx, uid)
    end = session.cursor if number is None else number
    if not 1 <= end <= session.cursor:
        raise NotFound(f"Session {session.id} has events 1 to {session.cursor}, and no event {end}.")
    return fold(all_events(tx, uid, end))


def all_events(tx: StoreTransaction, uid: str, through: int = 2**62) -> Iterator[Event]:
    """All events of a session up to one of them, a page at a time."""
    return (Event.from_row(row) for page in _pages(tx, uid, through) for row in page)


def _pages(tx: StoreTransaction, uid: str, end: int) -> Iterator[list[tuple[Any, ...]]]:
    number = 0
    while number < end:
        rows = tx.all("event.after", uid=uid, after=number, limit=min(PAGE, end - number))
        if not rows:
            return
        yield rows
        number = rows[-1][1]
