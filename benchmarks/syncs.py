"""Exact counts of syncs: on SQLite with a custom file system, on PostgreSQL from the server's statistics."""

from __future__ import annotations

import apsw
import psycopg


class CountingVFS(apsw.VFS):
    """The ordinary file system, with every sync counted. It has no shared memory: open the store `exclusive`."""

    def __init__(self, name: str = "counting") -> None:
        self.name = name
        self.syncs = 0
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return CountingFile(self, name, flags)


class CountingFile(apsw.VFSFile):
    """One file of it."""

    def __init__(self, vfs: CountingVFS, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._vfs = vfs
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._vfs.syncs += 1
        super().xSync(flags)


def wal_syncs(url: str) -> int:
    """How often PostgreSQL's backends have synced the log. A backend reports when it ends: close the store first."""
    with psycopg.connect(url, autocommit=True) as db:
        row = db.execute(
            "select coalesce(sum(fsyncs), 0) from pg_stat_io where object = 'wal' and backend_type = 'client backend'"
        ).fetchone()
    assert row is not None
    return int(row[0])
