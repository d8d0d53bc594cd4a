"""The judge of the control soak: what the sink's log and the event log show, after all processes have ended.

Over a limit: a session runs from the event that acquires its lease to the event that ends it. The events are put in the
order of their commits: SQLite has one writer and numbers its rows, PostgreSQL records the time of each commit. A claim
that saw a slot become free was committed after the commit that freed it, so this order has no false alarm, and a slot
that two claims took from one stale count is found, however briefly both ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from perdure.store.move import StoreTransaction
from tests.store.support.sessions import connection_of

BEGIN = frozenset({"lease.acquired", "lease.taken_over"})
END = frozenset({"session.parked", "session.released", "session.finished", "lease.expired"})
COMMITS = {"sqlite": "event.rowid", "postgres": "extract(epoch from pg_xact_commit_timestamp(event.xmin))"}


class QueueLimits(NamedTuple):
    """The limits of a queue; None means no limit."""

    concurrency: int | None = None
    per_key: int | None = None


class LeaseEvent(NamedTuple):
    """An event that begins or ends the run of a session, in the order of commits."""

    order: float
    uid: str
    kind: str
    queue: str
    key: str | None


def lease_events(tx: StoreTransaction, dialect: str) -> list[LeaseEvent]:
    """Every event that begins or ends a run, with the order of its commit."""
    kinds = ", ".join(f"'{kind}'" for kind in sorted(BEGIN | END))
    question = (
        f"select {COMMITS[dialect]}, session.uid, event.kind, session.queue, session.concurrency_key, event.number"
        f" from event join session on session.uid = event.session_uid where event.kind in ({kinds})"
    )
    rows = [tuple(row) for row in connection_of(tx).execute(question)]
    rows.sort(key=lambda row: (float(row[0]), row[2] in BEGIN, row[1], row[5]))  # in one commit, ends come first
    return [LeaseEvent(float(row[0]), *row[1:5]) for row in rows]


def over_limits(events: Iterable[LeaseEvent], limits: Mapping[str, QueueLimits]) -> tuple[list[str], dict[str, int]]:
    """The moments at which more sessions ran than a limit allows, and the most that ran at a time in each queue."""
    running: dict[str, LeaseEvent] = {}
    of_queue: Counter[str] = Counter()
    of_key: Counter[tuple[str, str]] = Counter()
    most: dict[str, int] = {}
    wrong: list[str] = []
    for one in events:
        before = running.pop(one.uid, None)
        if before is not None:
            of_queue[one.queue] -= 1
            of_key[one.queue, one.key or ""] -= one.key is not None
        if one.kind not in BEGIN:
            continue
        running[one.uid] = one
        of_queue[one.queue] += 1
        of_key[one.queue, one.key or ""] += one.key is not None
        most[one.queue] = max(most.get(one.queue, 0), of_queue[one.queue])
        limit = limits.get(one.queue, QueueLimits())
        if limit.concurrency is not None and of_queue[one.queue] > limit.concurrency:
            wrong.append(f"{of_queue[one.queue]} sessions of queue {one.queue} ran, {limit.concurrency} are allowed")
        if limit.per_key is not None and one.key is not None and of_key[one.queue, one.key] > limit.per_key:
            wrong.append(f"{of_key[one.queue, one.key]} sessions of key {one.key} ran, {limit.per_key} are allowed")
    return wrong, most


def doubled_and_lost(lasting: Counter[str], expected: Iterable[dict[str, int]]) -> tuple[list[str], list[str]]:
    """What is at the sink more than once, and what is not there although its session is done."""
    wanted = {f"effects {msgspec.json.encode(body, order='sorted').decode()}" for body in expected}
    doubled = [body for body, times in lasting.items() if times > 1] + [body for body in lasting if body not in wanted]
    return doubled, [body for body in wanted if body not in lasting]


class Verdict(msgspec.Struct, kw_only=True):
    """The figures of one soak."""

    sessions: int
    workers: int
    seconds: float
    deaths: dict[str, int]
    doubled: list[str]
    lost: list[str]
    stuck: list[str]
    over: list[str]
    orphans: list[str]
    most: dict[str, int]
    person: dict[str, int]
    resources: dict[str, Any] = {}

    @property
    def wrong(self) -> list[str]:
        """Everything that must not be, as sentences."""
        named = (("doubled", self.doubled), ("lost", self.lost), ("stuck", self.stuck), ("over", self.over))
        return [f"{name}: {one}" for name, found in (*named, ("orphan", self.orphans)) for one in found]
