# ruff: noqa: N802  (SQLite names the methods of a VFS)
"""The k-th moment of a process is its last: every fault point, and before and after every durable operation.

A `Countdown` counts moments in whichever thread reaches them and kills the process, with SIGKILL and before it can say
another word, at the one it was told. Moments are

    point NAME               a named fault point of the code
    before/after OP FILE     a write, sync, truncation or deletion of SQLite, seen by a VFS on top of the default one
    before/after CALL        a call of `os` that changes files: for the text files, the artifacts and the folders

Without a fatal moment it only counts. Nothing is counted until `start()`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import apsw

from perdure import faults
from perdure.testing.sweep.fork_process import Voice

CALLS = ("fsync", "fdatasync", "ftruncate", "link", "mkdir", "rename", "replace", "truncate", "unlink", "write")
BASE = "unix"
KINDS = {apsw.SQLITE_OPEN_WAL: "wal", apsw.SQLITE_OPEN_MAIN_DB: "db", apsw.SQLITE_OPEN_MAIN_JOURNAL: "journal"}


class Countdown:
    """Counts what could be the last thing this process does."""

    def __init__(self, voice: Voice, fatal: int) -> None:
        self.moments: list[str] = []
        self._voice = voice
        self._fatal = fatal
        self._counting = False
        self._lock = threading.Lock()

    def arm(self) -> None:
        """Put the counter into the fault points, the calls of `os` and the VFS that SQLite uses from now on."""
        self._vfs = _CountdownVFS(self)
        faults.arm(lambda name: self.moment(f"point {name}"))
        for name in CALLS:
            setattr(os, name, self._around(name, getattr(os, name)))

    def start(self) -> None:
        self._counting = True

    def stop(self) -> None:
        self._counting = False

    def moment(self, label: str) -> None:
        if not self._counting:
            return
        with self._lock:
            self.moments.append(label)
            if len(self.moments) == self._fatal:
                self._voice.say(last=label)
                os.kill(os.getpid(), signal.SIGKILL)

    def _around(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.moment(f"before {name}")
            result = real(*args, **kwargs)
            self.moment(f"after {name}")
            return result

        return counted


class _CountdownVFS(apsw.VFS):
    def __init__(self, countdown: Countdown) -> None:
        self._countdown = countdown
        super().__init__("countdown", BASE, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _CountdownFile(self._countdown, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._countdown.moment("before delete")
        super().xDelete(filename, syncdir)
        self._countdown.moment("after delete")


class _CountdownFile(apsw.VFSFile):
    def __init__(self, countdown: Countdown, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._countdown = countdown
        self._kind = next((kind for flag, kind in KINDS.items() if flags[0] & flag), "other")
        super().__init__(BASE, name, flags)

    def xWrite(self, data: Any, offset: int) -> None:
        self._countdown.moment(f"before write {self._kind}")
        super().xWrite(data, offset)
        self._countdown.moment(f"after write {self._kind}")

    def xSync(self, flags: int) -> None:
        self._countdown.moment(f"before sync {self._kind}")
        super().xSync(flags)
        self._countdown.moment(f"after sync {self._kind}")

    def xTruncate(self, newsize: int) -> None:
        self._countdown.moment(f"before truncate {self._kind}")
        super().xTruncate(newsize)
        self._countdown.moment(f"after truncate {self._kind}")
