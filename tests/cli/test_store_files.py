"""The files of a new store: who may read them, and a full disk."""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from perdure.errors import StoreFull
from perdure.store.databases.sqlite.engine import translate
from perdure.store.store import open_store
from tests.cli.support.terminal import Terminal


def test_new_store_is_readable_only_by_its_owner(terminal: Terminal, folder: Path) -> None:
    terminal("run", "user_talk", "--id", "t")
    assert {(folder / name).stat().st_mode & 0o077 for name in ("perdure.db", "perdure.db.d")} == {0}


def test_store_permissions_ignore_the_umask_and_are_not_changed(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        open_store(str(tmp_path / "a.db")).close()
        open_store(f"files:{tmp_path}/b").close()
        assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("a.db.d", "b")} == {0o700}
        with open_store(str(tmp_path / "a.db")):
            found = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("a.db*") if path.is_file()}
            assert found == {"a.db": 0o600, "a.db-wal": 0o600, "a.db-shm": 0o600}
        for name, mode in (("a.db", 0o660), ("a.db.d", 0o770)):
            (tmp_path / name).chmod(mode)
        with open_store(str(tmp_path / "a.db")):
            found = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("a.db*")}
            assert found == {"a.db": 0o660, "a.db-wal": 0o660, "a.db-shm": 0o660, "a.db.d": 0o770}
    finally:
        os.umask(old)


def test_opening_a_store_on_a_full_disk_is_store_full() -> None:
    assert isinstance(translate(apsw.exception_for(apsw.SQLITE_IOERR_SHMSIZE)), StoreFull)
