# ruff: noqa: N802  (SQLite names the methods of a VFS)
"""Power loss, recorded: everything that makes data durable below one folder, in order, while it really happens.

`PowerLoss` owns a SQLite VFS and, while it is entered, the `os` calls that make plain files durable. `sweep` then
replays the log and, at prefixes of it, builds three kinds of disk for a check to recover from:

    all      everything up to the cut survived
    synced   only what was synced survived: per file its content at its last sync, per folder its names at its last sync
    some N   a seeded subset of the unsynced writes, truncations and names survived, some writes torn at a 512 B sector

The model is harsher than ext4: syncing a file does not make its name durable, and unsynced operations survive in any
order. It trusts what SQLite trusts: a sector is written whole or not at all, and bytes beside a write are safe.

What SQLite does below a Python VFS, found by intercepting its system calls:

- The unix VFS syncs the folder inside the first xSync of every handle on a -wal or -journal. Python cannot see it, so
  it is recorded here as it happens there. Where the folder cannot be opened SQLite skips it in silence:
  `folder_syncs=False` is that disk, on which only a folder synced by the program itself counts.
- It never syncs the parent of a folder that the program made. That barrier is the program's on every disk.
- WAL works with any number of connections and threads of this process: apsw hands the shared-memory calls to the
  default VFS. `locking_mode=EXCLUSIVE` works too and is not needed. The -shm file is never durable and never rebuilt.

Plain files are observed when they are synced, renamed or linked, however they were written; bytes that were neither are
taken as lost. Never seen: other processes, `from os import fsync`, moved folders (refused). Linux only (/proc).
"""

import itertools
import os
import stat
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest import mock

import apsw

from tests.crash.support.disk_states import (
    FOLDER,
    Log,
    Mark,
    Name,
    Op,
    Report,
    Sync,
    SyncFolder,
    Truncate,
    Write,
    rebuild,
    sweep,
)

__all__ = ["Log", "PowerLoss", "Report", "rebuild", "sweep"]

NEW_JOURNAL = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL


class PowerLoss:
    """Records one folder while entered. Enter it before anything there is open; what is there already is durable.

    Open databases with `vfs=disk.vfs_name`, and `mark` what was acknowledged, right after it was.
    `swallow_syncs` is a disk whose syncs do nothing and report success.
    """

    _numbers = itertools.count(1)

    def __init__(self, folder: Path | str, *, swallow_syncs: bool = False, folder_syncs: bool = True) -> None:
        self.folder = os.path.realpath(folder)
        self.vfs_name = f"powerloss-{next(self._numbers)}"
        self.log = Log()
        self.swallow_syncs = swallow_syncs
        self.folder_syncs = folder_syncs
        self.lock = threading.RLock()
        self.databases: set[int] = set()
        self._names: dict[str, int] = {}
        self._inodes = itertools.count(FOLDER + 1)
        self._seen: dict[int, bytes] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._find()
        self._stack.callback(_RecordingVFS(self).unregister)
        plain = _PlainFiles(self)
        for name in ("fsync", "fdatasync"):
            self._stack.enter_context(mock.patch.object(os, name, plain.sync(getattr(os, name))))
        for name in ("rename", "replace", "link"):
            self._stack.enter_context(mock.patch.object(os, name, plain.move(getattr(os, name), keep=name == "link")))
        for name in ("unlink", "remove", "rmdir", "mkdir"):
            self._stack.enter_context(mock.patch.object(os, name, plain.entry(getattr(os, name), new=name == "mkdir")))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def mark(self, label: str) -> None:
        """Note an acknowledgement: every later disk must have what was acknowledged."""
        self.record(Mark(label))

    def record(self, op: Op) -> None:
        with self.lock:
            self.log.ops.append(op)

    def covered(self) -> int:
        """How much of the log a sync that begins now covers."""
        with self.lock:
            return len(self.log.ops)

    def below(self, path: str | os.PathLike[str], folder_fd: int | None = None) -> str | None:
        """The path relative to the recorded folder ("" for itself), or None for a path elsewhere."""
        start = os.getcwd() if folder_fd is None else os.readlink(f"/proc/self/fd/{folder_fd}")
        parent, name = os.path.split(os.path.join(start, os.fsdecode(path)).rstrip(os.sep))
        whole = os.path.join(os.path.realpath(parent), name)
        if whole == self.folder:
            return ""
        return whole[len(self.folder) + 1 :] if whole.startswith(self.folder + os.sep) else None

    def inode(self, path: str) -> int:
        """The inode behind a name; a name not seen before is recorded as created."""
        with self.lock:
            if path not in self._names:
                self.name(None, path, next(self._inodes))
            return self._names[path]

    def name(self, old: str | None, new: str | None, inode: int = FOLDER) -> None:
        """Record a name created (no old), deleted (no new) or renamed."""
        with self.lock:
            if old is not None:
                inode = self._names.pop(old, inode)
            if new is not None:
                self._names[new] = inode
            self.record(Name(old, new, inode))

    def observe(self, path: str) -> int:
        """Record what changed in a plain file since it was last read."""
        with self.lock:
            inode = self.inode(path)
            if inode in self.databases:  # closing a second descriptor would drop SQLite's locks
                return inode
            content, known = Path(self.folder, path).read_bytes(), self._seen.get(inode, b"")
            same = len(known) if content.startswith(known) else 0
            if len(content) < len(known):
                self.record(Truncate(inode, len(content)))
            if len(content) > same:
                self.record(Write(inode, same, content[same:]))
            self._seen[inode] = content
            return inode

    def _find(self) -> None:
        """Take what is in the folder already as durable."""
        for parent, folders, files in os.walk(self.folder):
            place = self.below(parent) or ""
            for name in folders:
                self.name(None, os.path.join(place, name))
            for name in (name for name in files if not name.endswith("-shm")):
                inode = self.observe(os.path.join(place, name))
                self.record(Sync(inode, self.covered()))
            self.record(SyncFolder(place, self.covered()))
        self.log.begin = len(self.log.ops)


class _RecordingVFS(apsw.VFS):
    """The default VFS, with each operation recorded once it was done."""

    def __init__(self, disk: PowerLoss) -> None:
        self._disk = disk
        super().__init__(disk.vfs_name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        place = None if path is None or flags[0] & apsw.SQLITE_OPEN_DELETEONCLOSE else self._disk.below(path)
        if place is None:
            return apsw.VFSFile("", name, flags)
        with self._disk.lock:
            file = _RecordingFile(self._disk, name, flags)
            file.begin(place)
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:
        with self._disk.lock:
            super().xDelete(filename, syncdir)
            place = self._disk.below(filename)
            if place is not None:
                self._disk.name(place, None)
        if place is not None and syncdir and self._disk.folder_syncs:
            self._disk.record(SyncFolder(os.path.dirname(place), self._disk.covered()))


class _RecordingFile(apsw.VFSFile):
    """One handle of SQLite. The lock keeps the log in the order the disk saw; a sync runs outside the lock."""

    def __init__(self, disk: PowerLoss, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        self._dirsync = disk.folder_syncs and bool(flags[0] & NEW_JOURNAL and flags[0] & apsw.SQLITE_OPEN_CREATE)
        super().__init__("", name, flags)

    def begin(self, place: str) -> None:
        self._place = place
        self._inode = self._disk.inode(place)
        self._disk.databases.add(self._inode)

    def xWrite(self, data: Any, offset: int) -> None:
        with self._disk.lock:
            super().xWrite(data, offset)
            self._disk.record(Write(self._inode, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        with self._disk.lock:
            super().xTruncate(newsize)
            self._disk.record(Truncate(self._inode, newsize))

    def xSync(self, flags: int) -> None:
        if self._disk.swallow_syncs:
            return
        covers = self._disk.covered()
        super().xSync(flags)
        self._disk.record(Sync(self._inode, covers))
        if self._dirsync:
            self._disk.record(SyncFolder(os.path.dirname(self._place), covers))
            self._dirsync = False


class _PlainFiles:
    """The calls of `os` that decide what survives, each doing what it always did and recording it below the folder."""

    def __init__(self, disk: PowerLoss) -> None:
        self._disk = disk

    def sync(self, real: Callable[[Any], None]) -> Callable[[Any], None]:
        def recorded(fd: Any) -> None:
            number = fd if isinstance(fd, int) else fd.fileno()
            path = os.readlink(f"/proc/self/fd/{number}")
            place = self._disk.below(path) if os.path.exists(path) else None
            folder = stat.S_ISDIR(os.fstat(number).st_mode)
            inode = self._disk.observe(place) if place is not None and not folder else FOLDER
            covers = self._disk.covered()
            real(fd)
            if place is not None:
                self._disk.record(SyncFolder(place, covers) if folder else Sync(inode, covers))

        return recorded

    def move(self, real: Callable[..., None], keep: bool) -> Callable[..., None]:
        def recorded(src: str, dst: str, **more: Any) -> None:
            old = self._disk.below(src, more.get("src_dir_fd"))
            new = self._disk.below(dst, more.get("dst_dir_fd"))
            if (old or new) and os.path.isdir(src):
                raise NotImplementedError(f"moving a folder is not modelled: {src}")
            with self._disk.lock:
                inode = self._disk.observe(old) if old else FOLDER
                real(src, dst, **more)
                if old and (new or not keep):
                    self._disk.name(None if keep else old, new, inode)
                elif new:
                    self._disk.observe(new)

        return recorded

    def entry(self, real: Callable[..., None], new: bool) -> Callable[..., None]:
        def recorded(path: str, *rest: int, **more: Any) -> None:
            place = self._disk.below(path, more.get("dir_fd"))
            with self._disk.lock:
                real(path, *rest, **more)
                if place:
                    self._disk.name(None if new else place, place if new else None)

        return recorded
