"""Reads of the rows of sessions that may be stuck. Each follows an index and is limited; nothing is evaluated here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from perdure.domain.wait import WaitKind
from perdure.store.inspection.read_access import SOME
from perdure.store.move import StoreTransaction

QUEUES = 1000


class SilentSession(NamedTuple):
    """A running session; `at` is the time of its last event, `tool` one that was dispatched and has not ended."""

    uid: str
    id: str
    holder: str
    at: int
    tool: str | None


class ReadySession(NamedTuple):
    """The first in line of a queue, program and pinned version; `at` is when it became ready."""

    queue: str
    program: str
    version: str  # empty: not pinned
    uid: str
    id: str
    at: int


class WaitingSession(NamedTuple):
    """A session with an open wait."""

    uid: str
    id: str
    program: str
    queue: str
    ref: str | None
    since: int


class ClosedQueue(NamedTuple):
    """A queue of which no session may run: it is paused, or its concurrency is 0."""

    name: str
    paused: bool


def silent(tx: StoreTransaction, *, now: int, before: int) -> list[SilentSession]:
    """Running sessions without an event or a heartbeat of a tool since `before`."""
    return [SilentSession(*row) for row in tx.all("stuck.silent", now=now, before=before, limit=SOME)]


def first_ready(tx: StoreTransaction) -> Iterator[ReadySession]:
    """The ready session that is first in line, of each queue, program and pinned version."""
    tx.one("claim.use_indexes")
    for sources, first in (("claim.sources", "stuck.first_ready"), ("claim.suspect_sources", "stuck.first_suspect")):
        for queue, program, version in tx.all(sources):
            row = tx.one(first, queue=queue, program=program, version=version)
            if row is not None:
                yield ReadySession(queue, program, version, row[0], row[1], row[2])


def waits(tx: StoreTransaction, kind: WaitKind) -> list[WaitingSession]:
    """Sessions with an open wait of one kind, the longest wait first."""
    return [WaitingSession(*row) for row in tx.all("stuck.waits", kind=kind, limit=SOME)]


def slot(tx: StoreTransaction, queue: str) -> tuple[str, str, int] | None:
    """A session that waits for a slot of a queue, and since when."""
    row = tx.one("stuck.slot", queue=queue)
    return None if row is None else (row[0], row[1], row[2])


def overdue(tx: StoreTransaction, *, before: int) -> list[tuple[str, str, int]]:
    """Sessions that wait for a time before `before`."""
    return [(row[0], row[1], row[2]) for row in tx.all("stuck.overdue", before=before, limit=SOME)]


def past_deadline(tx: StoreTransaction, *, before: int) -> list[tuple[str, str, str, int]]:
    """Sessions with a deadline before `before` that were not cancelled."""
    return [(row[0], row[1], row[2], row[3]) for row in tx.all("stuck.past_deadline", before=before, limit=SOME)]


def closed_queues(tx: StoreTransaction) -> dict[str, ClosedQueue]:
    """The queues of which no session may run, by name."""
    found = [ClosedQueue(row[0], row[1] is not None) for row in tx.all("stuck.closed_queues", limit=QUEUES)]
    return {one.name: one for one in found}
