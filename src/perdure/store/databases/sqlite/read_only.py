"""Read access to a SQLite file in a folder that cannot be written: another user's, or on a read-only file system.

SQLite reads a file in WAL mode through a small index file beside it, which it creates if necessary. Where it cannot,
there are two ways. Without a WAL, everything is in the file itself, and it is opened as immutable. With a WAL, both are
copied to a temporary folder and opened there. Either is correct only while no process writes, so the files must be the
same before and after; otherwise the read is refused.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import apsw

from perdure.errors import StoreUnavailable
from perdure.store.databases.sqlite.engine import connect_read_only, open_connection
from perdure.store.databases.sqlite.location import companion, with_reserve

TRIES = 3
IMMUTABLE = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


@contextmanager
def open_read_only(path: Path) -> Iterator[apsw.Connection]:
    """A connection that reads one snapshot of a file, also in a folder that cannot be written."""
    try:
        db = with_reserve(companion(path), lambda: connect_read_only(str(path)))
    except StoreUnavailable:
        if is_writable(path.parent):
            raise
    else:
        try:
            yield db
        finally:
            db.close()
        return
    with _open_without_wal_index(path) as db:
        yield db


def is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK)


@contextmanager
def _open_without_wal_index(path: Path) -> Iterator[apsw.Connection]:
    wal = path.with_name(path.name + "-wal")
    if wal.exists() and wal.stat().st_size:
        with TemporaryDirectory(prefix="perdure-look-") as folder:
            db = connect_read_only(str(_copied(path, wal, Path(folder))))
            try:
                yield db
            finally:
                db.close()
        return
    before = _state(path)
    with open_connection(f"file:{quote(str(path))}?immutable=1", IMMUTABLE) as db:
        db.execute("PRAGMA schema_version").fetchall()
    try:
        yield db
    finally:
        db.close()
    if _state(path) != before:
        raise _changed()


def _copied(path: Path, wal: Path, folder: Path) -> Path:
    """Copies of both files from the same moment."""
    for _ in range(TRIES):
        before = (_state(path), _state(wal))
        try:
            copies = [Path(shutil.copyfile(one, folder / one.name)) for one in (path, wal)]
        except FileNotFoundError:  # the last writer has closed the store and removed the WAL
            continue
        if (_state(path), _state(wal)) == before:
            return copies[0]
    raise _changed()


def _state(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _changed() -> StoreUnavailable:
    return StoreUnavailable(
        "The store was changed while it was read, and this user cannot write in its folder.",
        hint="Try again, or run as a user that can write there.",
    )
