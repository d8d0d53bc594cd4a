"""Locks between processes on one machine.

`Gate` lets SQLite processes write one after another, first come first served. SQLite's own busy handler polls, and
was measured to be thirty times unfair. Two locks make a turnstile: whoever waits for the gate holds the turn, so the
process that just wrote cannot push in front of the one that waits. The turn is waited for in the kernel's order, the
gate by the one who has the turn, both with a time limit: nobody sleeps behind a stopped process for ever.

`Presence` is a lock held for life. The kernel drops it at the moment of death, however the process dies, so it tells
the living from the dead; a descriptor handed to a child keeps it, so it also tells of surviving children. A child made
by `fork()` keeps none of these locks (`perdure.process`).
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

from perdure import process
from perdure.domain.worker import Liveness
from perdure.errors import StoreUnavailable


class WriteLock:
    """Exclusive between processes, fair, and free when alone: four system calls."""

    def __init__(self, folder: Path, limit: float = 20.0) -> None:
        self._limit = limit
        self._lock = process.open_for_parent(folder / "gate", os.O_RDWR | os.O_CREAT)
        self._queue = process.open_for_parent(folder / "turn", os.O_RDWR | os.O_CREAT)

    def acquire(self) -> None:
        """Wait in line, and give up when it does not move for too long: a stopped process must not stop everybody."""
        if not _try_lock(self._queue) and not LockRequest(self._queue).granted_within(self._limit):
            raise self._blocked(self._queue)
        try:
            since, pause = time.monotonic(), 0.00005
            while not _try_lock(self._lock):
                if time.monotonic() - since > self._limit:
                    raise self._blocked(self._lock)
                time.sleep(pause)
                pause = min(pause * 1.5, 0.005)
        finally:
            fcntl.flock(self._queue, fcntl.LOCK_UN)

    def _blocked(self, descriptor: int) -> StoreUnavailable:
        return StoreUnavailable(
            f"{holder_of(descriptor)} has kept every other writer waiting for {self._limit:g} s.",
            hint="Let it go on, or end it: it is stopped, or its disk is.",
        )

    def release(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._lock)
        os.close(self._queue)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class LockRequest:
    """A lock that is waited for in the kernel's own order, in a thread that can be left behind when time is up."""

    def __init__(self, descriptor: int) -> None:
        with process.no_fork():  # the same lock, though its owner may close his meanwhile
            self._descriptor = process.leave_to_parent(os.dup(descriptor))
        self._lock = threading.Lock()
        self._given = threading.Event()
        self._left = False
        threading.Thread(target=self._wait, name="perdure-lock", daemon=True).start()

    def granted_within(self, seconds: float) -> bool:
        if self._given.wait(seconds):
            return True
        with self._lock:
            self._left = not self._given.is_set()
            return not self._left

    def _wait(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with self._lock:
            if self._left:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            else:
                self._given.set()
        os.close(self._descriptor)


class Presence:
    """A file locked for as long as this process, or a child it handed the descriptor to, lives."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = folder / name
        unseen = folder / f".{name}"  # a file that is seen is locked, or nobody could tell it from a dead one's
        self.descriptor = process.open_for_parent(unseen, os.O_RDWR | os.O_CREAT)
        fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if life_of(folder, name) is Liveness.DEAD:
            self.path.unlink(missing_ok=True)
        try:
            os.link(unseen, self.path)  # not a rename: that would take the place of somebody who lives
        finally:
            unseen.unlink()

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self.descriptor)


def life_of(folder: Path, name: str) -> Liveness:
    """Whether the process that took this presence on this machine still lives, or a child of it does."""
    try:
        descriptor = os.open(folder / name, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return Liveness.DEAD
    except OSError:
        return Liveness.CANNOT_TELL
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two who look do not take each other for alive
    except BlockingIOError:
        return Liveness.ALIVE
    else:
        return Liveness.DEAD
    finally:
        os.close(descriptor)


def present_names(folder: Path) -> list[str]:
    """The names present now; files that the dead left behind are removed."""
    names = []
    for path in folder.glob("[!.]*"):
        if life_of(folder, path.name) is Liveness.DEAD:
            path.unlink(missing_ok=True)
        else:
            names.append(path.name)
    return sorted(names)


def holder_of(descriptor: int) -> str:
    """Who holds a lock on this file, as far as the kernel tells."""
    inode = f":{os.fstat(descriptor).st_ino} "
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if inode in line and "->" not in line:
            return f"Process {line.split()[4]}"
    return "Another process"
