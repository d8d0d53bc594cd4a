"""Tasks of the disk-fault tests: a real store on a disk that fails, and what it answered to its callers.

Each returns sentences about what went wrong. They run in a process of their own, so that a bug can be planted there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import apsw

from perdure.domain.lease import Holder
from perdure.errors import CommitUnknown, PerdureError, StoreFull, StoreUnavailable
from perdure.store.databases.sqlite.database import SQLite
from perdure.store.databases.sqlite.engine import SQLiteEngine
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import checkpoint, event
from perdure.store.store import Store
from perdure.store.writer.ticket import Ticket
from perdure.testing import ManualClock
from perdure.testing.sweep.fork_process import Channel
from tests.crash.support import planted_bugs
from tests.crash.support.failing_disk import FailingDisk
from tests.crash.support.power_loss_tasks import begin, numbers
from tests.crash.support.verdict import examine, integrity_problems

HUGE = "h" * 400_000


class FaultySQLite:
    """A store on a failing disk with three sessions, each of which has a holder."""

    def __init__(self, folder: str, disk: FailingDisk) -> None:
        self.disk = disk
        self.path = Path(folder) / "perdure.db"
        self.store = self.open()
        self.holders = begin(self.store, ("first", "second", "third"))

    def open(self) -> Store:
        store = Store(SQLite(self.path, ManualClock(), vfs=self.disk.vfs_name), "")
        store.database._commits._patience = 1  # type: ignore[attr-defined]
        return store

    def note(self, holder: Holder, number: int, text: str = "") -> Move[int]:
        return event.append(holder, "note", {"n": number, "text": text})

    def group(self, *moves: Move[Any]) -> list[PerdureError | None]:
        """Submit moves that the writer must take as one group; how each was answered."""
        begun, go = threading.Event(), threading.Event()

        def wait_inside(tx: StoreTransaction) -> None:
            begun.set()
            go.wait()

        tickets = [Ticket[Any](move, None) for move in (Move("wait", "plain", wait_inside), *moves)]
        self.store.database.submit_write(tickets[0])
        begun.wait()
        for ticket in tickets[1:]:
            self.store.database.submit_write(ticket)
        go.set()
        return [answer_of(ticket) for ticket in tickets[1:]]

    def problems(self, expected: list[list[int]], *, again: bool = True) -> list[str]:
        """What differs from the answers; afterwards the disk is healthy, and every session continues."""
        self.disk.heal()
        found = []
        for holder, right in zip(self.holders, expected, strict=True):
            there = self.store.read_now(numbers, holder.uid)
            if there != right:
                found.append(f"acknowledged {right}, there is {there}")
            if again:
                self.store.write_now(self.note(holder, 1000))
                found += [] if self.store.read_now(numbers, holder.uid) == [*there, 1000] else ["does not continue"]
            examined = self.store.read_now(examine, holder.uid)
            found += [sentence for sentences in examined.values() for sentence in sentences]
        self.store.close()
        return found + integrity_problems(self.path)


def answer_of(ticket: Ticket[Any]) -> PerdureError | None:
    try:
        ticket.wait()
    except PerdureError as error:
        return error
    return None


@contextmanager
def faulty_sqlite(folder: str, plant: str | None) -> Iterator[FaultySQLite]:
    planted_bugs.plant(plant)
    with FailingDisk() as disk:
        yield FaultySQLite(folder, disk)


def small_cache() -> None:
    """Pages spill into the WAL before the commit, as those of a large group do."""
    real = SQLiteEngine.begin

    def begin_small(self: SQLiteEngine) -> None:
        self.db.execute("PRAGMA cache_size = 5")
        real(self)

    mock.patch.object(SQLiteEngine, "begin", begin_small).start()


def full_in_a_group(channel: Channel, *, folder: str, plant: str | None = None) -> list[str]:
    """The second of three moves needs more than the disk has: it alone is refused, and later it is done."""
    small_cache()
    with faulty_sqlite(folder, plant) as it:
        first, second, third = it.holders
        it.disk.full_of(60_000)
        answers = it.group(it.note(first, 1), it.note(second, 1, HUGE), it.note(third, 1))
        found = [] if [type(one) for one in answers] == [type(None), StoreFull, type(None)] else [f"answered {answers}"]
        found += [] if it.store.read_now(numbers, second.uid) == [] else ["the refused move is there"]
        it.disk.heal()
        it.store.write_now(it.note(second, 2, HUGE))
        return found + it.problems([[1], [2], [1]])


def full_at_commit(channel: Channel, *, folder: str, plant: str | None = None) -> list[str]:
    """There is no room even for small moves: each is refused, clearly, and none is there."""
    with faulty_sqlite(folder, plant) as it:
        it.disk.full_of(0)
        it.disk.full_after(0)
        answers = it.group(*(it.note(holder, 1) for holder in it.holders))
        found = [f"answered {one!r}" for one in answers if not isinstance(one, StoreFull)]
        return found + it.problems([[], [], []])


def sync_fails(channel: Channel, *, folder: str, plant: str | None = None) -> list[str]:
    """The commit's sync fails once. A later synced write settles it: the group was not done, and is done again."""
    with faulty_sqlite(folder, plant) as it:
        it.disk.sync_fails()
        answers = it.group(*(it.note(holder, 1) for holder in it.holders))
        found = [f"answered {one!r}" for one in answers if one is not None]
        return found + it.problems([[1], [1], [1]])


def write_fails(channel: Channel, *, folder: str, plant: str | None = None) -> list[str]:
    """A frame of the commit cannot be written, once."""
    with faulty_sqlite(folder, plant) as it:
        it.disk.write_fails(nth=3)
        answers = it.group(*(it.note(holder, 1) for holder in it.holders))
        found = [f"answered {one!r}" for one in answers if one is not None]
        return found + it.problems([[1], [1], [1]])


def commit_holds_after_all(channel: Channel, *, folder: str, plant: str | None = None) -> list[str]:
    """COMMIT reports a failure after it has committed: the group was done, and is not done again."""
    armed = threading.Event()
    real = SQLiteEngine._grown

    def grown(self: SQLiteEngine, db: apsw.Connection, name: str, pages: int) -> int:
        if armed.is_set():
            armed.clear()
            raise apsw.exception_for(apsw.SQLITE_IOERR)
        return real(self, db, name, pages)

    with mock.patch.object(SQLiteEngine, "_grown", grown), faulty_sqlite(folder, plant) as it:
        armed.set()
        answers = it.group(*(it.note(holder, 1) for holder in it.holders))
        found = [f"answered {one!r}" for one in answers if one is not None]
        return found + (["the commit did not fail"] if armed.is_set() else []) + it.problems([[1], [1], [1]])


def disk_stays_dead(channel: Channel, *, folder: str, plant: str | None = None) -> list[str]:
    """No later write can settle the commit, and it is not guessed. Later each move is there once or not at all."""
    with faulty_sqlite(folder, plant) as it:
        it.disk.sync_fails(times=1_000_000)
        answers = it.group(*(it.note(holder, 1) for holder in it.holders))
        found = [f"answered {one!r}" for one in answers if not isinstance(one, CommitUnknown)]
        it.disk.heal()
        it.store.write_now(it.note(it.holders[0], 2))
        there = [it.store.read_now(numbers, holder.uid) for holder in it.holders]
        if there not in ([[1, 2], [1], [1]], [[2], [], []]):
            found.append(f"part of a group is there: {there}")
        return found + it.problems(there)


def check_fails(channel: Channel, *, folder: str, times: int, plant: str | None = None) -> list[str]:
    """The sync fails, the barrier is written, and then reading the outcome fails: it is read again."""
    left, failed = times, threading.Event()
    barrier, start = SQLiteEngine.barrier, SQLiteEngine.begin

    def fail_after(self: SQLiteEngine) -> None:
        failed.clear()
        barrier(self)
        failed.set()

    def begin_or_fail(self: SQLiteEngine) -> None:
        nonlocal left
        if failed.is_set() and left:
            left -= 1
            raise StoreUnavailable("Another process holds the lock.")
        start(self)

    with faulty_sqlite(folder, plant) as it:
        with mock.patch.multiple(SQLiteEngine, barrier=fail_after, begin=begin_or_fail):
            it.disk.sync_fails()
            answers = it.group(*(it.note(holder, 1) for holder in it.holders))
        if times == 1:
            return [f"answered {one!r}" for one in answers if one is not None] + it.problems([[1], [1], [1]])
        return [f"answered {one!r}" for one in answers if not isinstance(one, CommitUnknown)] + it.problems(
            [[], [], []]
        )


def check_fails_once(channel: Channel, *, folder: str, plant: str | None = None) -> list[str]:
    return check_fails(channel, folder=folder, times=1, plant=plant)


def check_always_fails(channel: Channel, *, folder: str, plant: str | None = None) -> list[str]:
    return check_fails(channel, folder=folder, times=1_000_000, plant=plant)


def quota_is_used_up(channel: Channel, *, folder: str, plant: str | None = None) -> list[str]:
    """A move is too large for what is left, SQLite cannot report that cause, and small moves still fit."""
    with faulty_sqlite(folder, plant) as it:
        first, second, third = it.holders
        it.disk.full_of(60_000, apsw.SQLITE_IOERR_WRITE)
        answers = it.group(it.note(first, 1), it.note(second, 1, HUGE), it.note(third, 1))
        found = [] if [one is None for one in answers] == [True, False, True] else [f"answered {answers}"]
        return found + it.problems([[1], [], [1]])


def checkpoint_fails(channel: Channel, *, folder: str, plant: str | None = None) -> list[str]:
    """The WAL cannot be moved into the database: no caller waits for that or gets an error."""
    from perdure.store.databases.sqlite import engine

    with faulty_sqlite(folder, plant) as it:
        engine.CHECKPOINT_PAGES = 1
        for number in range(1, 6):
            it.disk.sync_fails(nth=2, times=2)  # the first one is the commit's
            it.store.write_now(it.note(it.holders[0], number))
            it.store.write_now(checkpoint.delete_all())
        return it.problems([[1, 2, 3, 4, 5], [], []])


def opening_fails(channel: Channel, *, folder: str, plant: str | None = None) -> list[str]:
    """Opening on a full disk is refused, leaves nothing locked, and works in the same process when there is room."""
    with faulty_sqlite(folder, plant) as it:
        it.store.close()
        it.disk.full_after(0)
        found = [] if isinstance(error := refusal(it.open), StoreFull) else [f"opening raised {error!r}"]
        it.disk.heal()
        it.store = it.open()
        return found + it.problems([[], [], []])


def reader_cannot_open(channel: Channel, *, folder: str, plant: str | None = None) -> list[str]:
    """A reader that gets no connection raises an error, and the next one is served."""
    with faulty_sqlite(folder, plant) as it:
        uid = it.holders[0].uid
        it.disk.open_fails(times=1)
        error = refusal(lambda: it.store.read_now(numbers, uid))
        found = [] if isinstance(error, PerdureError) else [f"reading raised {error!r}"]
        return found + it.problems([[], [], []])


def refusal(call: Callable[[], Any]) -> BaseException | None:
    try:
        call()
    except BaseException as error:
        return error
    return None
