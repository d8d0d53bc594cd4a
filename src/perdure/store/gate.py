"""Locks between processes on one machine.

`Gate` lets SQLite processes write one after another, first come first served. SQLite's own busy handler polls, and
was measured to be thirty times unfair. Two locks make a turnstile: whoever waits for the gate holds the turn, so the
process that just wrote cannot push in front of the one that waits. Both are looked at again and again, with a time
limit: nobody sleeps behind a stopped process for ever.

`Presence` is a lock held for life. The kernel drops it at the moment of death, however the process dies, so it tells
the living from the dead; a descriptor handed to a child keeps it, so it also tells of surviving children.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from perdure.domain.worker import Life
from perdure.errors import StoreUnavailable


class Gate:
    """Exclusive between processes, fair, and free when alone: four system calls."""

    def __init__(self, folder: Path, limit: float = 20.0) -> None:
        self._limit = limit
        self._gate = os.open(folder / "gate", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._turn = os.open(folder / "turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def enter(self) -> None:
        """Wait in line, and give up when it does not move for too long: a stopped process must not stop everybody."""
        self._take(self._turn)
        try:
            self._take(self._gate)
        finally:
            fcntl.flock(self._turn, fcntl.LOCK_UN)

    def _take(self, descriptor: int) -> None:
        since, pause = time.monotonic(), 0.00005
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() - since > self._limit:
                    raise StoreUnavailable(
                        f"{holder_of(descriptor)} has kept every other writer waiting for {self._limit:g} s.",
                        hint="Let it go on, or end it: it is stopped, or its disk is.",
                    ) from None
                time.sleep(pause)
                pause = min(pause * 1.5, 0.005)

    def leave(self) -> None:
        fcntl.flock(self._gate, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._gate)
        os.close(self._turn)


class Presence:
    """A file locked for as long as this process, or a child it handed the descriptor to, lives."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / name
        unseen = folder / f".{name}"  # a file that is seen is locked, or nobody could tell it from a dead one's
        self.descriptor = os.open(unseen, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if life_of(folder, name) is Life.DEAD:
            self.path.unlink(missing_ok=True)
        try:
            os.link(unseen, self.path)  # not a rename: that would take the place of somebody who lives
        finally:
            unseen.unlink()

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self.descriptor)


def life_of(folder: Path, name: str) -> Life:
    """Whether the process that took this presence on this machine still lives, or a child of it does."""
    try:
        descriptor = os.open(folder / name, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return Life.DEAD
    except OSError:
        return Life.CANNOT_TELL
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two who look do not take each other for alive
    except BlockingIOError:
        return Life.ALIVE
    else:
        return Life.DEAD
    finally:
        os.close(descriptor)


def living(folder: Path) -> list[str]:
    """The names present now; files that the dead left behind are removed."""
    names = []
    for path in folder.glob("[!.]*"):
        if life_of(folder, path.name) is Life.DEAD:
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
