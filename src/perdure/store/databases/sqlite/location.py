"""The location of a SQLite store: what is required of the file system, and the files beside the database.

perdure.db       the record
perdure.db.d/    gate and turn (locks), present/ (processes that have it open), wake/ (sockets for wake-ups), witness,
                 reserve, artifacts/, backups/

New files are readable by their owner only, whatever the umask: a session contains what people and models wrote.
Existing permissions are kept, so a store can be shared with `chmod`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import apsw

from perdure.durable import FULL
from perdure.errors import ConfigError, StoreFull, StoreUnavailable
from perdure.ids import new_uid
from perdure.store.writer.lock import Presence, present_names

T = TypeVar("T")

FIXED_IN = 3_051_003  # 3.7.0 up to this version can corrupt a WAL file when it is reset under a reader
MANY_PROCESSES = 16  # `perdure serve` with eight workers is a supervisor, five services and them; two are for commands
NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "glusterfs", "lustre"})


def check_library(version: int = 0) -> None:
    """Refuse a version of SQLite that can corrupt its own log."""
    version = version or apsw.SQLITE_VERSION_NUMBER
    if version < FIXED_IN:
        major, minor, patch = version // 1_000_000, version // 1000 % 1000, version % 1000
        raise ConfigError(
            f"SQLite {major}.{minor}.{patch} can corrupt a database in WAL mode.",
            hint="Install a newer `apsw`, which carries its own SQLite (3.51.3 or later).",
        )


def check_file_system(path: Path, mounts: str | None = None) -> str:
    """Refuse a network file system, where WAL mode silently loses data; return the file system's name."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text()
        except OSError:
            return "unknown"
    best, kind = "", "unknown"
    for line in mounts.splitlines():
        _, point, system, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        inside = str(path).startswith(point.rstrip("/") + "/") or str(path) == point
        if inside and len(point) >= len(best):
            best, kind = point, system
    if kind in NETWORK:
        raise ConfigError(
            f"{path} is on a network file system ({kind}), where SQLite can lose data.",
            hint="Put the store on a local disk, or use postgresql://… for several machines.",
        )
    return kind


def companion(path: Path) -> Path:
    """The folder beside the database file, for everything that is not in the database."""
    return path.with_name(path.name + ".d")


def check_not_missing(path: Path) -> None:
    """Refuse to treat a store as new when only its database file is missing: what it forbids would be forgotten.

    The files beside it are made after the database, so they are looked for first: another process may be creating it.
    """
    left = (companion(path) / "witness", Path(f"{path}-wal"), Path(f"{path}-shm"))
    shown = [str(one.parent if one.name == "witness" else one) for one in left if one.exists()]
    if shown and not path.exists():
        names = " and ".join(shown)
        raise StoreUnavailable(
            f"The store {path} is missing, but files that belong to it are there ({names}).",
            hint=f"Put the file back, or restore a backup. For a new, empty store, first move {names} away.",
        )


def make_file(path: Path) -> None:
    """Create an empty file for its owner only, if there is none. SQLite gives its other files the same permissions.

    It must not be open in SQLite yet: closing any descriptor of a file releases all locks of this process on it.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def announce(path: Path) -> Presence:
    """Register that this process has the store open, and warn if there are too many writers for one file."""
    folder = companion(path) / "present"
    presence = Presence(folder, f"{os.getpid()}-{new_uid()[-8:]}")
    if (count := len(present_names(folder))) > MANY_PROCESSES:
        warnings.warn(
            f"{count} processes have {path} open; SQLite lets them write one at a time. PostgreSQL suits many writers.",
            stacklevel=2,
        )
    return presence


class Reserve:
    """A file that reserves disk space, so that the store can still be opened when the disk is full."""

    SIZE = 1 << 20

    def __init__(self, folder: Path) -> None:
        self.path = folder / "reserve"

    def fill(self) -> bool:
        """Reserve the space, if the disk has enough; False if it has not."""
        if self.path.exists() and self.path.stat().st_size == self.SIZE:
            return True
        there = os.statvfs(self.path.parent)
        if there.f_bavail * there.f_frsize < 4 * self.SIZE:
            return False
        try:
            make_file(self.path)
            with open(self.path, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, self.SIZE)
        except OSError:
            self.spend()
            return False
        return True

    def spend(self) -> bool:
        """Free the space; False if none was reserved."""
        try:
            self.path.unlink()
        except OSError:
            return False
        return True


def with_reserve(folder: Path, act: Callable[[], T]) -> T:
    """Open a store; if the disk is full, with the reserved space. The next opening reserves some again."""
    try:
        return act()
    except (StoreFull, OSError) as error:
        if not isinstance(error, StoreFull) and error.errno not in FULL:
            raise
        if Reserve(folder).spend():
            return act()
        if isinstance(error, StoreFull):
            raise
        raise StoreFull("The disk is full; nothing was written.") from error
