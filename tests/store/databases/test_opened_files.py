"""A WAL that lost its name under a living process: nothing more is acknowledged, and nothing of others is removed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from perdure.errors import StoreUnavailable
from perdure.store.databases.sqlite.engine import open_connection
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import meta
from perdure.store.store import Store, open_store

OTHER = """
import os, sys
from perdure.store.moves import meta
from perdure.store.store import open_store

target, key, how = sys.argv[1:]
store = open_store(target)
store.write_now(meta.put(key, "other"))
if how == "die":
    os._exit(0)
store.close()
"""

pytestmark = pytest.mark.databases("sqlite")


def write_in_other_process(target: str, key: str, how: str = "close") -> None:
    subprocess.run([sys.executable, "-c", OTHER, target, key, how], check=True)


def remove_wal(target: str) -> None:
    Path(f"{target}-wal").unlink()


def remove_index(target: str) -> None:
    Path(f"{target}-shm").unlink()


def lose_locks(target: str) -> None:
    """Copy the files as a tool may do for a backup. SQLite's locks are gone, so the next process thinks it is alone."""
    for name in ("", "-wal", "-shm"):
        shutil.copy(f"{target}{name}", f"{target}{name}.copy")
    write_in_other_process(target, "second")
    assert not Path(f"{target}-wal").exists()


@pytest.mark.slow
@pytest.mark.parametrize("remove", [remove_wal, remove_index, lose_locks])
def test_nothing_is_acknowledged_after_the_wal_or_its_index_was_removed(
    target: str, remove: Callable[[str], None]
) -> None:
    with open_store(target) as store:
        store.write_now(meta.put("first", "ours"))
        remove(target)
        with pytest.raises(StoreUnavailable, match=r"-(wal|shm) was replaced, moved or removed"):
            store.write_now(meta.put("third", "ours"))
        with pytest.raises(StoreUnavailable, match=r"-(wal|shm) was replaced, moved or removed"):
            store.read_now(meta.properties)
    with open_store(target) as store:
        assert keys(store) == {"first"} | ({"second"} if remove is lose_locks else set())


@pytest.mark.slow
@pytest.mark.parametrize("remove", [remove_index, lose_locks])
def test_closing_does_not_remove_commits_of_others(target: str, remove: Callable[[str], None]) -> None:
    """The other process dies, so what it committed is only in the WAL, which SQLite removes after the last process."""
    with open_store(target) as store:
        store.write_now(meta.put("first", "ours"))
        remove(target)
        write_in_other_process(target, "third", "die")
    with open_store(target) as store:
        assert keys(store) == {"first", "third"} | ({"second"} if remove is lose_locks else set())


def test_removed_files_are_not_reported_as_damaged(target: str) -> None:
    """SQLite may say so if a file is removed while it reads."""

    def remove_and_fail(_: StoreTransaction) -> None:
        remove_wal(target)
        raise apsw.CorruptError("database disk image is malformed")

    for use in (Store.read_now, lambda store, act: store.write_now(Move("test", "plain", act))):
        with open_store(target) as store, pytest.raises(StoreUnavailable, match="-wal was replaced, moved or removed"):
            use(store, remove_and_fail)


def test_a_file_that_is_removed_while_it_is_opened_is_not_damaged(target: str) -> None:
    def open_and_fail() -> None:
        with open_connection(target, apsw.SQLITE_OPEN_READONLY):
            Path(target).unlink()
            raise apsw.CorruptError("database disk image is malformed")

    with pytest.raises(StoreUnavailable, match="was replaced, moved or removed"):
        open_and_fail()


def keys(store: Store) -> set[str]:
    return set(store.read_now(meta.properties)) & {"first", "second", "third"}
