"""The feed: every committed event of every session and of the control log, once, in one order that never changes.

    number    gives the next numbers to events that are committed and have none, one part of a log after another
    read      reads events by their numbers

An event gets its number after its commit, in a transaction of its own. A commit that comes late is therefore later in
the feed, and never behind the position of a reader. Numbers have no gaps, and one event has one number: the end of the
feed is locked while events are numbered, and every log is continued where its last part ended.

Which sessions have events without a number is found by when they changed (`since`), and, because a transaction that
began long ago may commit now, from time to time by a look at all of them (`since` None).
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.domain.control_event import ControlEvent
from perdure.domain.event import Event
from perdure.errors import Conflict
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import control_log

CONTROL = ""  # the uid of the control log in the feed
BATCH = 500  # parts of logs that are numbered in one transaction
PAGE = 1000


class FeedEvent(msgspec.Struct, frozen=True):
    """One event in the feed. An event of the control log has no session."""

    position: int
    session: str | None
    session_uid: str | None
    number: int
    kind: str
    actor: str
    at: int
    effect_id: str | None
    digest: str
    chain: str
    body: Any


def number(since: int | None, after: str = "") -> Move[str | None]:
    """Number some of the events that have none. Returns where the next call continues (`after`), or None: all are done.

    With `since`, of sessions that changed since then; otherwise of all sessions whose uid is above `after`.
    """

    def run(tx: StoreTransaction) -> str | None:
        row = tx.one("feed.lock_end")
        assert row is not None
        last, parts = int(row[0]), _behind(tx, since, after, BATCH)
        for uid, first, through in parts:
            tx.run("feed.insert", number=last + 1, session_uid=uid, first=first, through=through)
            last += through - first + 1
        if parts:
            tx.run("feed.advance", number=last)
        return parts[-1][0] if len(parts) >= BATCH else None

    return Move("feed.number", "plain", run)


def is_behind(tx: StoreTransaction, since: int | None) -> bool:
    """Whether events have no number yet. It writes nothing, so a reader without the right to number may ask."""
    return bool(_behind(tx, since, "", 1))


def _behind(tx: StoreTransaction, since: int | None, after: str, limit: int) -> list[tuple[str, int, int]]:
    """The parts of logs without numbers: the uid, the first event and the last one. The control log comes first."""
    done, last = tx.one("feed.numbered", session_uid=CONTROL), control_log.end(tx)[0]
    first = (done[0] if done else 0) + 1
    found = [(CONTROL, first, last)] if first <= last else []
    if since is None:
        rows = tx.all("feed.behind", after=after, limit=limit)
    else:
        rows = tx.all("feed.behind_since", since=since, limit=limit)
    return found + [(str(uid), done + 1, cursor) for uid, cursor, done in rows]


def end(tx: StoreTransaction) -> int:
    """The number of the last event in the feed."""
    row = tx.one("feed.end")
    return int(row[0]) if row else 0


def read(tx: StoreTransaction, after: int, limit: int = PAGE) -> list[FeedEvent]:
    """The events after a position, in order."""
    if after > (last := end(tx)):
        raise Conflict(
            f"The feed ends with {last}, and the position is {after}: the store was set back to an earlier state.",
            hint="Begin again at the position that you kept before, or at 0; every event has its session and number.",
        )
    part = tx.one("feed.part_of", number=after + 1)
    if part is None or after == last:
        return []
    found: list[FeedEvent] = []
    for start, uid, first, through in tx.all("feed.parts", number=part[0], limit=limit):
        if len(found) >= limit:
            break
        skip = max(after - start + 1, 0)
        found += _events(tx, uid, first + skip, through, start + skip, limit - len(found))
    return found


def _events(tx: StoreTransaction, uid: str, first: int, through: int, position: int, limit: int) -> list[FeedEvent]:
    """The events of one part, from `first` on; `position` is that of the first."""
    most = min(limit, through - first + 1)
    if most <= 0:
        return []
    if uid == CONTROL:
        lines = map(ControlEvent.from_row, tx.all("control_event.after", after=first - 1, limit=most))
        return [
            FeedEvent(
                position + one.number - first, None, None, one.number, one.kind, one.actor, one.at, None, one.digest,
                one.chain, one.body,
            )
            for one in lines
        ]  # fmt: skip
    row = tx.one("audit.session_end", uid=uid)
    name = str(row[0]) if row else None
    events = map(Event.from_row, tx.all("event.after", uid=uid, after=first - 1, limit=most))
    return [
        FeedEvent(
            position + one.number - first, name, uid, one.number, one.kind, one.actor, one.at, one.effect_id,
            one.digest, one.chain, one.body,
        )
        for one in events
    ]  # fmt: skip
