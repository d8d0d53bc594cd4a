"""Which files a store has opened: the database and its WAL. A path may name another file later, or none.

    database replaced    a restore by hand, or `git checkout`
    WAL removed          by hand as something left over, or by another process that could not see our locks: closing any
                         descriptor of these files in this process, as a copy of them does, releases what SQLite holds

A commit to a file that has lost its name is gone when this process ends. So every group and every read compares first.
"""

from __future__ import annotations

import os
from pathlib import Path

from perdure.errors import StoreUnavailable

Identity = tuple[int, int]


def identity_of(path: Path | str) -> Identity | None:
    """The identity of the file at a path; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


class OpenedFiles:
    """The files of one store, as they were opened."""

    def __init__(self, path: Path) -> None:
        self._database, self._wal = str(path), f"{path}-wal"
        self._identities = {self._database: identity_of(path)}

    def add_wal(self) -> None:
        """The WAL is there now: something was written."""
        self._identities[self._wal] = identity_of(self._wal)

    def check(self) -> None:
        """Refuse to continue if a path does not name the file that was opened."""
        for path, opened in self._identities.items():
            if identity_of(path) != opened:
                raise StoreUnavailable(
                    f"The file {path} was replaced, moved or removed while it was open; nothing was written.",
                    hint="Put it back, or end this process and start it again.",
                )

    def may_remove_wal(self) -> bool:
        """Whether the WAL at its path is not of others: closing would remove it, and commits of theirs with it."""
        return identity_of(self._wal) in (None, self._identities.get(self._wal))
