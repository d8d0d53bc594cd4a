# ruff: noqa: N802  (SQLite names the methods of a VFS)
"""A disk that fails on request: full, refusing writes, or failing to sync, until it is healed.

Owns a SQLite VFS on top of the default one, or on top of `base` (a `PowerLoss` disk, to cut the power after a fault).
Faults hold for every database opened with `vfs=disk.vfs_name`, from any thread. Never touches plain files, and never
reports a write or a sync as done that it did not do. It differs from Linux in one point: a write whose sync failed is
still there for the next sync, where Linux may have dropped it.

apsw raises what a Python VFS raised even where SQLite itself continues, as after a failed automatic checkpoint. How
SQLite handles each fault is tested in `test_power_loss_harness.py`.
"""

import itertools
import threading
from types import TracebackType
from typing import Any, Self

import apsw


class FailingDisk:
    """A healthy disk until a fault is set. Each switch replaces its own earlier setting; `heal` clears all."""

    _numbers = itertools.count(1)

    def __init__(self, base: str = "") -> None:
        self.vfs_name = f"diskfault-{next(self._numbers)}"
        self.writes = 0
        self.syncs = 0
        self._base = base
        self._lock = threading.Lock()
        self._room: int | None = None
        self._growth: int | None = None
        self.heal()

    def __enter__(self) -> Self:
        self._vfs = _FaultVFS(self.vfs_name, self._base, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._vfs.unregister()

    def full_after(self, size: int) -> None:
        """Take `size` more bytes, overwrites included, then SQLITE_FULL; what fits of a write is written."""
        with self._lock:
            self._room = size

    def full_of(self, growth: int, code: int = apsw.SQLITE_FULL) -> None:
        """Let the files grow by `growth` bytes more, then fail with `code`; what they hold may still be overwritten.

        This is how a real disk is full. A quota that is used up is the same to the program, except that SQLite
        reports SQLITE_IOERR_WRITE.
        """
        with self._lock:
            self._growth, self._code = growth, code

    def open_fails(self, times: int = 1) -> None:
        """The next `times` files are not opened: SQLITE_CANTOPEN."""
        with self._lock:
            self._bad_opens = times

    def write_fails(self, nth: int = 1, times: int = 1) -> None:
        """The nth write from now, and the `times - 1` after it, fail with SQLITE_IOERR_WRITE and write nothing."""
        with self._lock:
            self._bad_writes = range(self.writes + nth, self.writes + nth + times)

    def sync_fails(self, nth: int = 1, times: int = 1) -> None:
        """The nth sync from now, and the `times - 1` after it, fail with SQLITE_IOERR_FSYNC and sync nothing."""
        with self._lock:
            self._bad_syncs = range(self.syncs + nth, self.syncs + nth + times)

    def heal(self) -> None:
        with self._lock:
            self._room = None
            self._growth = None
            self._code = apsw.SQLITE_FULL
            self._bad_opens = 0
            self._bad_writes = range(0)
            self._bad_syncs = range(0)

    def take(self, size: int) -> int:
        """How many bytes of the next write fit; raises when that write is to fail."""
        with self._lock:
            self.writes += 1
            if self.writes in self._bad_writes:
                raise apsw.exception_for(apsw.SQLITE_IOERR_WRITE)
            if self._room is None:
                return size
            fits = min(size, self._room)
            self._room -= fits
            return fits

    def grow(self, growth: int) -> None:
        """A file is about to grow; raises when there is no room for that."""
        with self._lock:
            if self._growth is not None and growth > 0:
                if growth > self._growth:
                    raise apsw.exception_for(self._code)
                self._growth -= growth

    def open(self) -> None:
        with self._lock:
            if self._bad_opens:
                self._bad_opens -= 1
                raise apsw.exception_for(apsw.SQLITE_CANTOPEN)

    def sync(self) -> None:
        """Count a sync; raises when it is to fail."""
        with self._lock:
            self.syncs += 1
            if self.syncs in self._bad_syncs:
                raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)


class _FaultVFS(apsw.VFS):
    def __init__(self, name: str, base: str, disk: FailingDisk) -> None:
        self._base = base
        self._disk = disk
        super().__init__(name, base)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        self._disk.open()
        return _FaultFile(self._base, name, flags, self._disk)


class _FaultFile(apsw.VFSFile):
    def __init__(self, base: str, name: str | apsw.URIFilename | None, flags: list[int], disk: FailingDisk) -> None:
        self._disk = disk
        super().__init__(base, name, flags)

    def xWrite(self, data: Any, offset: int) -> None:
        self._disk.grow(offset + len(data) - self.xFileSize())
        fits = self._disk.take(len(data))
        if fits:
            super().xWrite(data[:fits], offset)
        if fits < len(data):
            raise apsw.exception_for(apsw.SQLITE_FULL)

    def xSync(self, flags: int) -> None:
        self._disk.sync()
        super().xSync(flags)
