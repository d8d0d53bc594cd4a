# ruff: noqa: N802  (SQLite names the methods of a VFS)
"""Kill points around every durable operation, beside the fault points of the code.

`arm_everything` lets a `KillPointCounter` count, and kill at,

    point NAME               a named fault point of the code
    before/after OP FILE     a write, sync, truncation or deletion of SQLite, seen by a VFS on top of the default one
    before/after CALL        a call of `os` that changes files: for the text files, the artifacts and the folders
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import apsw

from perdure import faults
from perdure.testing.sweep.fork_process import Channel
from perdure.testing.sweep.trial import KillPointCounter

CALLS = ("fsync", "fdatasync", "ftruncate", "link", "mkdir", "rename", "replace", "truncate", "unlink", "write")
BASE = "unix"
KINDS = {apsw.SQLITE_OPEN_WAL: "wal", apsw.SQLITE_OPEN_MAIN_DB: "db", apsw.SQLITE_OPEN_MAIN_JOURNAL: "journal"}
Reach = Callable[[str], None]


def arm_everything(channel: Channel, fatal: int) -> KillPointCounter:
    """Put a counter into the fault points, the calls of `os` and the VFS that SQLite uses from now on."""
    counter = KillPointCounter(channel, fatal)
    _registered.append(_CountingVFS(counter.reach))
    faults.arm(lambda name: counter.reach(f"point {name}"))
    for name in CALLS:
        setattr(os, name, _around(name, getattr(os, name), counter.reach))
    return counter


_registered: list[apsw.VFS] = []  # apsw drops a VFS that is not referenced


def _around(name: str, real: Callable[..., Any], reach: Reach) -> Callable[..., Any]:
    def counted(*args: Any, **kwargs: Any) -> Any:
        reach(f"before {name}")
        result = real(*args, **kwargs)
        reach(f"after {name}")
        return result

    return counted


class _CountingVFS(apsw.VFS):
    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        super().__init__("kill-points", BASE, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _CountingFile(self._reach, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._reach("before delete")
        super().xDelete(filename, syncdir)
        self._reach("after delete")


class _CountingFile(apsw.VFSFile):
    def __init__(self, reach: Reach, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._reach = reach
        self._kind = next((kind for flag, kind in KINDS.items() if flags[0] & flag), "other")
        super().__init__(BASE, name, flags)

    def xWrite(self, data: Any, offset: int) -> None:
        self._reach(f"before write {self._kind}")
        super().xWrite(data, offset)
        self._reach(f"after write {self._kind}")

    def xSync(self, flags: int) -> None:
        self._reach(f"before sync {self._kind}")
        super().xSync(flags)
        self._reach(f"after sync {self._kind}")

    def xTruncate(self, newsize: int) -> None:
        self._reach(f"before truncate {self._kind}")
        super().xTruncate(newsize)
        self._reach(f"after truncate {self._kind}")
