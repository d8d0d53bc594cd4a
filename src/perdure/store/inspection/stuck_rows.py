"""Reads of the rows of sessions that may be stuck. Each follows an index and is limited; nothing is evaluated here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from perdure.domain.wait import WaitKind
from perdure.store.inspection.read_access import SOME
from perdure.store.move import StoreTransaction

PAIRS = 1000
QUEUES = 1000


class SilentSession(NamedTuple):
    """A running session; `at` is the time of its last event, `tool` one that was dispatched and has not ended."""

    uid: str
    id: str
    holder: str
    at: int
    tool: str | None


class ReadySession(NamedTuple):
    """A ready session; `at` is when it became ready."""

    uid: str
    id: str
    at: int
    pinned_at: int | None
    code_version: str | None
    workspace: str | None


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


def ready_pairs(tx: StoreTransaction) -> Iterator[tuple[str, str]]:
    """The queues and programs that have ready sessions; one index lookup for each."""
    pair = ("", "")
    for _ in range(PAIRS):
        row = tx.one("stuck.next_pair", queue=pair[0], program=pair[1])
        if row is None:
            return
        pair = (row[0], row[1])
        yield pair


def first_ready(tx: StoreTransaction, queue: str, program: str) -> list[ReadySession]:
    """The sessions of a queue and program that are first in line."""
    return [ReadySession(*row) for row in tx.all("stuck.first_ready", queue=queue, program=program, limit=SOME)]


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
