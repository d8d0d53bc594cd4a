"""Locks between processes on one machine.

`WriteLock` lets SQLite processes write one after another, first come first served. SQLite's own busy handler polls, and
was measured to be thirty times unfair. Two file locks are used: a process that waits for the write lock (`gate`) holds
the queue lock (`turn`), so the process that just wrote cannot overtake the one that waits. The queue lock is granted in
the kernel's order. Both have a time limit: no process waits for ever behind a stopped one.

`Presence` is a lock held for the life of a process. The kernel releases it when the process dies, so it shows which
processes live; a descriptor that is passed to a child keeps it, so it also shows surviving children. A child made
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
    """Exclusive between processes, fair, and cheap without contention: four system calls."""

    def __init__(self, folder: Path, limit: float = 20.0) -> None:
        self._limit = limit
        self._lock = process.open_for_parent(folder / "gate", os.O_RDWR | os.O_CREAT)
        self._queue = process.open_for_parent(folder / "turn", os.O_RDWR | os.O_CREAT)

    def acquire(self) -> None:
        """Wait in turn, up to the time limit: a stopped process must not block all others."""
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
            hint="Continue that process or end it: it is stopped, or its disk does not respond.",
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
    """A request for a lock, granted in the kernel's order; its thread is abandoned after the time limit."""

    def __init__(self, descriptor: int) -> None:
        with process.no_fork():  # the same lock, even if the owner closes its descriptor meanwhile
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
    """A file that is locked while this process lives, or a child that has the descriptor."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = folder / name
        unseen = (
            folder / f".{name}"
        )  # a visible file is always locked; otherwise it would look like that of a dead process
        self.descriptor = process.open_for_parent(unseen, os.O_RDWR | os.O_CREAT)
        fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if life_of(folder, name) is Liveness.DEAD:
            self.path.unlink(missing_ok=True)
        try:
            os.link(unseen, self.path)  # not a rename: that would replace the file of a living process
        finally:
            unseen.unlink()

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self.descriptor)


def life_of(folder: Path, name: str) -> Liveness:
    """Whether the process with this presence on this machine still lives, or a child of it."""
    try:
        descriptor = os.open(folder / name, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return Liveness.DEAD
    except OSError:
        return Liveness.CANNOT_TELL
    try:
        fcntl.flock(
            descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB
        )  # shared: two processes that check do not see each other as alive
    except BlockingIOError:
        return Liveness.ALIVE
    else:
        return Liveness.DEAD
    finally:
        os.close(descriptor)


def present_names(folder: Path) -> list[str]:
    """The names of living processes; files of dead ones are removed."""
    names = []
    for path in folder.glob("[!.]*"):
        if life_of(folder, path.name) is Liveness.DEAD:
            path.unlink(missing_ok=True)
        else:
            names.append(path.name)
    return sorted(names)


def holder_of(descriptor: int) -> str:
    """The process that holds a lock on this file, if the kernel shows it."""
    inode = f":{os.fstat(descriptor).st_ino} "
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if inode in line and "->" not in line:
            return f"Process {line.split()[4]}"
    return "Another process"
