"""What a claim reads: the next sessions of a queue along the index, and the limits of a queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.clock import SECOND
from perdure.domain.queue import Queue
from perdure.domain.rate import free_in_rate, used_up_to
from perdure.store.move import SessionHead, StoreTransaction

RETRY = SECOND  # when a worker tries again whose queues are full: another worker may stop without taking more


def is_possible(tx: StoreTransaction) -> bool:
    """Whether any session is ready or waits for a slot: otherwise no claim takes anything."""
    return tx.one("claim.is_possible") is not None


class Candidate(SessionHead, frozen=True):
    """What a claim reads of a session."""

    program: str = ""
    priority: int = 0
    turn: int = 0
    concurrency_key: str | None = None
    code_version: str | None = None
    suspected_at: int | None = None
    lease_alone: int | None = None


class Source:
    """Ready sessions of one queue, program and pinned version, read a few at a time."""

    def __init__(self, tx: StoreTransaction, queue: str, program: str, version: str, size: int) -> None:
        self._tx = tx
        self.queue = queue
        self._key = {"queue": queue, "program": program, "version": version}
        self._size = size
        self._read: list[Candidate] = []
        self._skipped = 0  # read, still ready, and read again by the next statement
        self._is_exhausted = False

    @property
    def has_more(self) -> bool:
        """Whether sessions were read and not asked for."""
        return bool(self._read)

    def next(self, skip: Callable[[Candidate], bool]) -> Candidate | None:
        while True:
            if not self._read and not self._is_exhausted:
                self._fill()
            if not self._read:
                return None
            one = self._read.pop(0)
            if not skip(one):
                return one
            self._skipped += 1

    def _fill(self) -> None:
        """Read the next ones. Those that were taken are no longer ready, in this transaction too."""
        size = self._size + self._skipped
        rows = self._tx.all("claim.ready", limit=size, **self._key)
        self._is_exhausted = len(rows) < size
        self._read = [Candidate(*row) for row in rows][self._skipped :]
        self._size *= 2


class QueueLimits:
    """What may still be taken of one queue in this transaction. `row` is locked; None: the queue has no limits."""

    def __init__(self, tx: StoreTransaction, name: str, row: Queue | None, limit: int, worker: str) -> None:
        self._tx = tx
        self.name = name
        self.row = row
        self.free = limit
        self.wake_at: int | None = None
        self._keys: dict[str, int] = {}
        if row is None:
            return
        if row.paused_at is not None:
            self.free = 0
            return
        if row.concurrency is not None:
            used = self._count("claim.in_use", limit=row.concurrency)
            self._cap(row.concurrency - used, tx.now + RETRY if row.concurrency else None)
        if row.per_worker is not None:
            self._cap(row.per_worker - self._count("claim.in_use_of_worker", holder=worker), None)
        if row.rate_count is not None and row.rate_period is not None:
            free, wake_at = free_in_rate(row.rate_count, row.rate_period, row.rate_at, tx.now)
            self._cap(free, wake_at)

    def _count(self, statement: str, **values: Any) -> int:
        (number,) = self._tx.one(statement, queue=self.name, **values) or (0,)
        return int(number)

    def _cap(self, free: int, wake_at: int | None) -> None:
        if free < self.free:
            self.free, self.wake_at = max(0, free), wake_at

    def free_of_key(self, key: str) -> int:
        """How many more sessions of a key may run."""
        if self.row is None or self.row.per_key is None:
            return max(1, self.free)
        if key not in self._keys:
            self._keys[key] = self._count("claim.in_use_of_key", key=key, limit=self.row.per_key)
        return self.row.per_key - self._keys[key]

    def take(self, one: Candidate) -> None:
        self.free -= 1
        if one.concurrency_key in self._keys:
            self._keys[one.concurrency_key] += 1

    def close(self, taken: int) -> None:
        """Note what was taken of the rate."""
        if taken and self.row is not None and self.row.rate_count is not None and self.row.rate_period is not None:
            rate_at = used_up_to(self.row.rate_count, self.row.rate_period, self.row.rate_at, self._tx.now, taken)
            self._tx.send("claim.use_rate", name=self.name, rate_at=rate_at)
