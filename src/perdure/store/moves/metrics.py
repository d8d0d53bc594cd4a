"""Reads for monitoring: what a store holds now, in numbers. Each query reads up to a number of rows and no more."""

from __future__ import annotations

import msgspec

from perdure.clock import SECOND
from perdure.store.move import StoreTransaction

MOST = 100_000  # rows that one query counts; a number that reaches it is at least this large
RECENT = 300 * SECOND
MOST_RECENT = 20_000
MOST_QUEUES = 1000
ALIVE = 60 * SECOND


class OpenWaits(msgspec.Struct, frozen=True):
    """How many waits of a kind are open, and since when the oldest is."""

    count: int
    since: int


class StoreMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """A store at one moment, in numbers."""

    at: int
    sessions: dict[str, int]  # by status: those that are open, and those that failed
    ended: dict[str, int]  # by status: those that ended and changed in the last five minutes
    queues: dict[str, int]  # ready sessions of each queue
    waits: dict[str, OpenWaits]  # by kind
    effects: dict[str, int]  # by state: those that were planned in the last five minutes
    doubts: int
    oldest_doubt: int | None
    workers: dict[str, int]  # by role: processes that showed a sign of life in the last minute
    notifications: int


def read(tx: StoreTransaction) -> StoreMetrics:
    """All numbers, from one snapshot."""
    sessions: dict[str, int] = dict(tx.all("metrics.open_sessions", most=MOST))
    suspects = sessions.pop("suspect", 0)
    recent = {"since": tx.now - RECENT, "most": MOST_RECENT}
    doubts = tx.one("metrics.doubts", most=MOST) or (0, None)
    pending = tx.one("metrics.notifications", most=MOST)
    return StoreMetrics(
        at=tx.now,
        sessions=sessions | {"ready": sessions.get("ready", 0) + suspects},
        ended=dict(tx.all("metrics.ended_sessions", **recent)),
        queues=dict(tx.all("metrics.queues", most=MOST, queues=MOST_QUEUES)),
        waits={kind: OpenWaits(count, since) for kind, count, since in tx.all("metrics.waits", most=MOST)},
        effects=dict(tx.all("metrics.effects", **recent)),
        doubts=doubts[0],
        oldest_doubt=doubts[1],
        workers=dict(tx.all("metrics.workers", since=tx.now - ALIVE)),
        notifications=pending[0] if pending else 0,
    )
