"""A disk that is full or fails under a real store: a clear error, nothing acknowledged lost, and it works again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.testing.sweep.server_pool import ServerPool
from tests.crash.support import full_disk, sqlite_faults, text_file_faults
from tests.figures import record

SQLITE: list[Callable[..., Any]] = [
    sqlite_faults.full_in_a_group,
    sqlite_faults.full_at_commit,
    sqlite_faults.sync_fails,
    sqlite_faults.write_fails,
    sqlite_faults.commit_holds_after_all,
    sqlite_faults.disk_stays_dead,
    sqlite_faults.check_fails_once,
    sqlite_faults.check_always_fails,
    sqlite_faults.quota_is_used_up,
    sqlite_faults.checkpoint_fails,
    sqlite_faults.opening_fails,
    sqlite_faults.reader_cannot_open,
]
FILES: list[Callable[..., Any]] = [
    text_file_faults.full,
    text_file_faults.full_for_a_new_file,
    text_file_faults.sync_fails,
    text_file_faults.disk_stays_dead,
    text_file_faults.first_line_is_refused,
]


@pytest.mark.slow
@pytest.mark.parametrize("fault", SQLITE, ids=lambda fault: fault.__name__)
def test_sqlite_loses_and_repeats_nothing_on_a_failing_disk(
    pool: ServerPool, tmp_path: Path, fault: Callable[..., Any]
) -> None:
    found = pool.call(fault, folder=str(tmp_path))
    record("disk faults", ("wrong",), (f"SQLite, {fault.__name__}", len(found)))
    assert found == []


@pytest.mark.parametrize("fault", FILES, ids=lambda fault: fault.__name__)
def test_text_files_lose_and_repeat_nothing_on_a_failing_disk(
    pool: ServerPool, tmp_path: Path, fault: Callable[..., Any]
) -> None:
    found = pool.call(fault, folder=str(tmp_path))
    record("disk faults", ("wrong",), (f"files, {fault.__name__}", len(found)))
    assert found == []


@pytest.mark.parametrize("files", [False, True], ids=["SQLite", "files"])
def test_a_full_disk_is_a_clear_error_until_there_is_room(pool: ServerPool, tmp_path: Path, files: bool) -> None:
    result = pool.call(full_disk.fill, folder=str(tmp_path), files=files)
    name = f"{'files' if files else 'SQLite'}, a full tmpfs"
    if result["why"]:
        pytest.skip(f"no file system can be mounted here: {result['why']}")
    record("disk faults", ("wrong",), (f"{name}, {result['taken']} moves", len(result["found"])))
    assert result["found"] == []


def test_a_store_on_a_full_disk_opens_with_its_reserve(pool: ServerPool, tmp_path: Path) -> None:
    """SQLite needs room even to read: it creates a file of shared memory."""
    result = pool.call(full_disk.open_full, folder=str(tmp_path))
    if result["why"]:
        pytest.skip(f"no file system can be mounted here: {result['why']}")
    record("disk faults", ("wrong",), ("SQLite, opened on a full tmpfs", len(result["found"])))
    assert result["found"] == []
