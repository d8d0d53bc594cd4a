"""Which files a store has opened: the database, its WAL and the index of the WAL. A path may name another file later.

    database replaced    a restore by hand, or `git checkout`
    WAL removed          by hand as something left over, or by another process that could not see our locks: closing any
                         descriptor of these files in this process, as a copy of them does, releases what SQLite holds
    index removed        likewise; the next process makes a new one, and then each overwrites what the other commits

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

    def __init__(self, path: Path | str) -> None:
        self._path = str(path)
        self._identities = {self._path: identity_of(path)}

    def add_wal(self) -> None:
        """The WAL and its index are there now: something was written."""
        self._identities |= {name: identity_of(name) for name in (f"{self._path}-wal", f"{self._path}-shm")}

    def check(self) -> None:
        """Refuse to continue if a path does not name the file that was opened."""
        if (change := self.change()) is not None:
            raise change

    def change(self) -> StoreUnavailable | None:
        """The error for a path that does not name the file that was opened; None if there is none.

        SQLite may take such files for damaged ones.
        """
        for path, opened in self._identities.items():
            if opened is None or identity_of(path) != opened:
                return StoreUnavailable(
                    f"The file {path} was replaced, moved or removed while it was open; nothing was written.",
                    hint="Put it back, or end this process and start it again.",
                )
        return None

    def may_remove_wal(self) -> bool:
        """Whether none of the paths names a file of others: closing would remove the WAL, with commits of theirs."""
        return all(identity_of(path) in (None, opened) for path, opened in self._identities.items())
