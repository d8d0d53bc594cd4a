"""Tasks of the power-loss sweeps: write to a recorded disk, then cut the power at prefixes of the record.

Recording and cutting happen in one process, so that a bug can be planted in it. Several processes sweep the same record
with other seeds, in parallel.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from perdure import faults
from perdure.artifacts.directory import Directory
from perdure.domain.lease import Holder
from perdure.errors import CommitUnknown, PerdureError
from perdure.store.databases.sqlite import engine
from perdure.store.databases.sqlite.database import SQLite
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import event, lease, session
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from perdure.testing.sweep.fork_process import Channel
from tests.crash.support import planted_bugs
from tests.crash.support.disk_states import Check, Report, sweep
from tests.crash.support.failing_disk import FailingDisk
from tests.crash.support.power_loss import PowerLoss
from tests.crash.support.session_tasks import examine_session
from tests.crash.support.session_workload import MOVES, WorkloadSession, folder_of
from tests.crash.support.verdict import (
    HEADS,
    Verdict,
    continue_session,
    examine,
    integrity_problems,
    judge_safely,
    merge,
    verdict,
)

OFTEN = 60  # pages: a checkpoint every few moves, where there is otherwise one in a thousand pages


def cut_sqlite(
    channel: Channel, *, plant: str | None, states: int, seed: int, measure: dict[str, Any]
) -> dict[str, Any]:
    """Two sessions on SQLite, with a close and an open in the middle, and frequent checkpoints."""
    planted_bugs.plant(plant)
    engine.CHECKPOINT_PAGES = OFTEN

    def record(disk: PowerLoss, folder: Path) -> None:
        def reopen() -> Store:
            return Store(SQLite(folder / "made" / "perdure.db", ManualClock(), vfs=disk.vfs_name), "")

        run_two_sessions(disk, reopen)

    return asdict(
        cut(record, check_sessions(lambda folder: str(folder / "made" / "perdure.db"), measure), states, seed)
    )


def cut_files(
    channel: Channel, *, plant: str | None, states: int, seed: int, measure: dict[str, Any]
) -> dict[str, Any]:
    """The same two sessions in text files."""
    planted_bugs.plant(plant)

    def record(disk: PowerLoss, folder: Path) -> None:
        run_two_sessions(disk, lambda: open_store(f"files:{folder / 'made' / 'store'}", clock=ManualClock()))

    return asdict(
        cut(record, check_sessions(lambda folder: f"files:{folder / 'made' / 'store'}", measure), states, seed)
    )


def run_two_sessions(disk: PowerLoss, reopen: Callable[[], Store]) -> None:
    """Two sessions in turn, each move marked as soon as it is acknowledged."""
    store = reopen()
    sessions = [WorkloadSession(store, id, folder_of(store, Path())) for id in ("first", "second")]
    for number, move in enumerate(MOVES.values()):
        if number == len(MOVES) // 2:
            store.close()
            store = reopen()
        for work in sessions:
            work.store = store
            work.apply(move)
            disk.mark(work.id)
    store.close()


def cut(record: Callable[[PowerLoss, Path], None], check: Check, states: int, seed: int) -> Report:
    with tempfile.TemporaryDirectory(prefix="recorded-") as folder:
        with PowerLoss(folder) as disk:
            record(disk, Path(folder))
        return sweep(disk.log, check, states=states, seed=seed)


def check_sessions(target: Callable[[Path], str], measure: dict[str, Any]) -> Check:
    """Both sessions are as they were after their last acknowledged move, or after the one that was under way."""

    def check(folder: Path, marks: list[str], label: str) -> str | None:
        def judge() -> Verdict:
            found = verdict()
            with open_store(target(folder), clock=ManualClock()) as store:
                merge(found, store.read_now(examine_both, folder_of(store, folder), measure["states"], marks))
                merge(
                    found,
                    verdict() if any(found.values()) else continue_session(store, ("first", "second")[len(marks) % 2]),
                )
            if ":" not in target(folder):
                found["broken"] += integrity_problems(Path(target(folder)))
            return found

        return lost_or_raise(judge_safely(judge))

    return check


def examine_both(
    tx: StoreTransaction, directory: Directory, expected: list[dict[str, str]], marks: list[str]
) -> Verdict:
    first, second = (examine_session(tx, id, directory, expected, marks.count(id)) for id in ("first", "second"))
    return merge(first, second)


def lost_or_raise(found: Verdict) -> str | None:
    """A loss is returned as a sentence; anything else is raised as corruption."""
    if found["lost"]:
        return found["lost"][0]
    for head in HEADS:
        if found[head]:
            raise AssertionError(f"{head}: {found[head][0]}")
    return None


class SimulatedKill(BaseException):
    """Stands for a kill in a process that must survive to keep the record."""


def cut_after_kills(channel: Channel, *, states: int, seed: int) -> dict[str, Any]:
    """Text files whose writers die with a line written and not synced. The next process builds on what it read."""

    def record(disk: PowerLoss, folder: Path) -> None:
        writer = _DyingWriter(disk, f"files:{folder / 'store'}")
        for number in range(1, 41):
            holder = writer.holder(writer.uids[number % len(writer.uids)])
            writer.write(event.append(holder, "note", {"n": number}))
            if number == 20:
                writer.doomed = True  # the first line of a new file, too
                writer.write(session.create(session.NewSession(id="third", program="p", arguments={}), by="a"))
                writer.uids.append(writer.store.read_now(session.get_by_id, "third").uid)
        faults.disarm()
        writer.store.close()

    return asdict(cut(record, check_numbers(lambda folder: f"files:{folder / 'store'}"), states, seed))


class _DyingWriter:
    """A writer of text files that dies at every fifth line, written and not yet synced, and is replaced."""

    def __init__(self, disk: PowerLoss, target: str) -> None:
        self.store = open_store(target, clock=ManualClock())
        self.uids = [holder.uid for holder in begin(self.store, ("first", "second"))]
        self.doomed = False
        self._disk = disk
        self._target = target
        self._lines = 0
        faults.arm(self._die)

    def holder(self, uid: str) -> Holder:
        row = self.store.read_now(session.get, uid)
        return self.store.write_now(lease.acquire(uid, "worker", nonce=row.id, ttl=10**9))

    def write(self, move: Move[Any]) -> None:
        """Write, or die and let the next process read; then note what is known to be there."""
        try:
            self.store.write_now(move)
        except SimulatedKill:
            self.store.close()
            self.store = open_store(self._target, clock=ManualClock())
        for uid in self.uids:
            for number in self.store.read_now(numbers, uid):
                self._disk.mark(f"{uid} {number}")

    def _die(self, name: str) -> None:
        self._lines += name == "log.written"
        if name == "log.written" and (self.doomed or self._lines % 5 == 3):
            self.doomed = False
            raise SimulatedKill


def cut_after_faults(channel: Channel, *, states: int, seed: int) -> dict[str, Any]:
    """SQLite on a disk that is full, fails to write or fails to sync, repeatedly, and then loses power as well."""

    def record(disk: PowerLoss, folder: Path) -> None:
        with FailingDisk(base=disk.vfs_name) as fault:
            store = Store(SQLite(folder / "perdure.db", ManualClock(), vfs=fault.vfs_name), "")
            (holder,) = begin(store, ("first",))
            faults_ = (fault.sync_fails, fault.write_fails, lambda: fault.full_after(6000), fault.heal, fault.heal)
            for number in range(1, 61):
                faults_[number % 5]()
                try:
                    store.write_now(event.append(holder, "note", {"n": number, "text": "t" * 2000}))
                    disk.mark(f"{holder.uid} {number}")
                except PerdureError as refusal:
                    if not isinstance(refusal, CommitUnknown):
                        disk.mark(f"{holder.uid} {-number}")  # refused: it must never appear
                    fault.heal()
            store.close()

    return asdict(cut(record, check_numbers(lambda folder: str(folder / "perdure.db")), states, seed))


def begin(store: Store, ids: tuple[str, ...]) -> list[Holder]:
    rows = [store.write_now(session.create(session.NewSession(id=id, program="p", arguments={}), by="a")) for id in ids]
    return [store.write_now(lease.acquire(row.uid, "worker", nonce=row.id, ttl=10**9)) for row in rows]


def numbers(tx: StoreTransaction, uid: str) -> list[int]:
    """The numbers in the notes of a session, in order."""
    return [line.body["n"] for line in event.after(tx, uid) if line.kind == "note"]


def check_numbers(target: Callable[[Path], str]) -> Check:
    """Every marked number is there once, in order, in a log that holds together; and the log can be continued."""

    def check(folder: Path, marks: list[str], label: str) -> str | None:
        def judge() -> Verdict:
            found = verdict()
            with open_store(target(folder), clock=ManualClock()) as store:
                for uid in dict.fromkeys(mark.split()[0] for mark in marks):
                    there = store.read_now(numbers, uid)
                    marked = {int(mark.split()[1]) for mark in marks if mark.startswith(uid)}
                    gone = {number for number in marked if number > 0} - set(there)
                    found["lost"] += [f"{sorted(gone)} are gone"] if gone else []
                    back = {-number for number in marked if number < 0} & set(there)
                    found["half"] += [f"{sorted(back)} were refused and are there"] if back else []
                    found["half"] += [f"the numbers are {there}"] if there != sorted(set(there)) else []
                    merge(found, store.read_now(examine, uid))
                    merge(found, continue_session(store, store.read_now(session.get, uid).id))
            return found

        return lost_or_raise(judge_safely(judge))

    return check
