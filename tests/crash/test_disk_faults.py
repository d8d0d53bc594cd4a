"""A disk that is full or fails under a real store: a clear error, nothing acknowledged lost, and it works again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.testing.sweep.parallel import Lanes
from tests.crash import faulty, faultyfiles, fulldisk
from tests.figures import record

SQLITE: list[Callable[..., Any]] = [
    faulty.full_in_a_group,
    faulty.full_at_commit,
    faulty.sync_fails,
    faulty.write_fails,
    faulty.commit_holds_after_all,
    faulty.disk_stays_dead,
    faulty.look_fails_once,
    faulty.look_fails_for_good,
    faulty.quota_is_used_up,
    faulty.checkpoint_fails,
    faulty.opening_fails,
    faulty.reader_cannot_open,
]
FILES: list[Callable[..., Any]] = [
    faultyfiles.full,
    faultyfiles.full_for_a_new_file,
    faultyfiles.sync_fails,
    faultyfiles.disk_stays_dead,
    faultyfiles.first_line_is_refused,
]


@pytest.mark.slow
@pytest.mark.parametrize("fault", SQLITE, ids=lambda fault: fault.__name__)
def test_sqlite_keeps_its_promises_on_a_failing_disk(lanes: Lanes, tmp_path: Path, fault: Callable[..., Any]) -> None:
    found = lanes.call(fault, folder=str(tmp_path))
    record("disk faults", ("wrong",), (f"SQLite, {fault.__name__}", len(found)))
    assert found == []


@pytest.mark.parametrize("fault", FILES, ids=lambda fault: fault.__name__)
def test_text_files_keep_their_promises_on_a_failing_disk(
    lanes: Lanes, tmp_path: Path, fault: Callable[..., Any]
) -> None:
    found = lanes.call(fault, folder=str(tmp_path))
    record("disk faults", ("wrong",), (f"files, {fault.__name__}", len(found)))
    assert found == []


@pytest.mark.parametrize("files", [False, True], ids=["SQLite", "files"])
def test_a_real_disk_that_is_full_refuses_clearly_and_works_again_when_there_is_room(
    lanes: Lanes, tmp_path: Path, files: bool
) -> None:
    result = lanes.call(fulldisk.fill, folder=str(tmp_path), files=files)
    name = f"{'files' if files else 'SQLite'}, a full tmpfs"
    if result["why"]:
        pytest.skip(f"no file system can be mounted here: {result['why']}")
    record("disk faults", ("wrong",), (f"{name}, {result['told']} moves", len(result["found"])))
    assert result["found"] == []


def test_a_store_on_a_full_disk_is_told_so_and_opens_with_what_was_kept_for_that(lanes: Lanes, tmp_path: Path) -> None:
    """SQLite needs room even to read: it makes a file of shared memory."""
    result = lanes.call(fulldisk.open_full, folder=str(tmp_path))
    if result["why"]:
        pytest.skip(f"no file system can be mounted here: {result['why']}")
    record("disk faults", ("wrong",), ("SQLite, opened on a full tmpfs", len(result["found"])))
    assert result["found"] == []
