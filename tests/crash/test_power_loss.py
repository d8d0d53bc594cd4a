"""The store on a recorded disk that loses power after any write, with and without what was not synced."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure.artifacts.directory import Directory
from perdure.durable import make_folder
from perdure.ids import digest
from perdure.testing.sweep.server_pool import ServerPool, TrialServers
from tests.crash.support import power_loss_tasks
from tests.crash.support.disk_states import Report, sweep
from tests.crash.support.power_loss import PowerLoss
from tests.figures import record
from tests.seed import chance

HEADS = ("states", "distinct", "lost", "corrupt")


def show(name: str, report: Report) -> Report:
    record("power loss", HEADS, (name, report.states, report.distinct, report.lost, report.corrupt))
    return report


def cut(
    pool: ServerPool,
    name: str,
    task: Callable[..., Any],
    *,
    states: int,
    shards: int = 2,
    planted: bool = False,
    **more: Any,
) -> Report:
    """Run the task with several seeds in parallel, and add up the results; with a planted bug the seeds are fixed."""
    share = -(-states // shards)
    first = 0 if planted else chance().randrange(1_000_000)

    def shard(seed: int, servers: TrialServers) -> Report:
        return Report(**servers.forking.call(task, states=share, seed=seed, timeout=3600, **more))

    total = Report()
    for one in pool.each([partial(shard, first + number) for number in range(shards)]):
        total.states += one.states
        total.distinct += one.distinct
        total.lost += one.lost
        total.corrupt += one.corrupt
        total.failures += one.failures
    return show(name, total)


@pytest.mark.slow
def test_sqlite_loses_nothing_in_a_power_loss(pool: ServerPool, measure: Any) -> None:
    report = cut(pool, "SQLite, two sessions", power_loss_tasks.cut_sqlite, states=400, plant=None, measure=measure)
    assert (report.lost, report.corrupt) == (0, 0), report.failures[:5]
    assert report.states >= 400
    assert report.distinct > 200


@pytest.mark.soak
def test_sqlite_loses_nothing_in_twenty_thousand_power_losses(pool: ServerPool, measure: Any) -> None:
    task = power_loss_tasks.cut_sqlite
    report = cut(pool, "SQLite, soak", task, states=20_000, shards=8, plant=None, measure=measure)
    assert (report.lost, report.corrupt) == (0, 0), report.failures[:5]
    assert report.states >= 20_000


@pytest.mark.slow
@pytest.mark.parametrize("plant", ["normal sync", "no sync"])
def test_less_than_full_sync_is_caught(pool: ServerPool, measure: Any, plant: str) -> None:
    """The positive control: the same sweep finds losses here."""
    name, task = f"SQLite, {plant}: must lose", power_loss_tasks.cut_sqlite
    report = cut(pool, name, task, states=60, planted=True, plant=plant, measure=measure)
    assert report.lost > 5


@pytest.mark.slow
def test_an_artifact_row_before_its_bytes_is_caught(pool: ServerPool, measure: Any) -> None:
    name, task = "SQLite, index before bytes: must lose", power_loss_tasks.cut_sqlite
    report = cut(pool, name, task, states=240, planted=True, plant="index before bytes", measure=measure)
    assert any("Artifact" in failure for failure in report.failures)


@pytest.mark.slow
def test_text_files_lose_nothing_in_a_power_loss(pool: ServerPool, measure: Any) -> None:
    report = cut(pool, "files, two sessions", power_loss_tasks.cut_files, states=200, plant=None, measure=measure)
    assert (report.lost, report.corrupt) == (0, 0), report.failures[:5]


@pytest.mark.slow
def test_an_unsynced_line_of_a_dead_process_is_synced_before_use(pool: ServerPool) -> None:
    report = cut(pool, "files, after kills", power_loss_tasks.cut_after_kills, states=150)
    assert (report.lost, report.corrupt) == (0, 0), report.failures[:5]


@pytest.mark.slow
def test_sqlite_loses_nothing_in_a_power_loss_after_disk_faults(pool: ServerPool) -> None:
    report = cut(pool, "SQLite, after disk faults", power_loss_tasks.cut_after_faults, states=150)
    assert (report.lost, report.corrupt) == (0, 0), report.failures[:5]


def artifact_is_there(path: Path, body: bytes, folder: Path, marks: list[str], label: str) -> str | None:
    if not marks:
        return None
    return None if (folder / path).is_file() and (folder / path).read_bytes() == body else "the artifact is gone"


@pytest.mark.parametrize("there", ["nothing", "artifacts", "its first folder"])
def test_an_artifact_lasts_when_a_dead_process_made_its_folder(tmp_path: Path, there: str) -> None:
    """A folder that exists may not be durable: its creator may have died before it synced the parent folder."""
    body = b"bytes " * 500
    path = Path("artifacts", digest(body)[:2], digest(body))
    with PowerLoss(tmp_path) as disk:
        if there == "its first folder":
            Directory(tmp_path / "artifacts").put(b"another")
        if there != "nothing":
            (tmp_path / "artifacts" if there == "artifacts" else (tmp_path / path).parent).mkdir()
        Directory(tmp_path / "artifacts").put(body)
        disk.mark("kept")
    report = sweep(disk.log, partial(artifact_is_there, path, body), states=200)
    show(f"artifact, {there} there before", report)
    assert (report.lost, report.corrupt) == (0, 0), report.failures[:5]


@pytest.mark.parametrize("there", ["", "a", "a/b"])
def test_the_store_folder_lasts_when_a_dead_process_made_part_of_it(tmp_path: Path, there: str) -> None:
    """The dead process made one level at a time, and left at most the lowest one not durable."""
    with PowerLoss(tmp_path) as disk:
        if there:
            make_folder((tmp_path / there).parent)
            (tmp_path / there).mkdir()
        make_folder(tmp_path / "a" / "b" / "c")
        disk.mark("made")

    def check(folder: Path, marks: list[str], label: str) -> str | None:
        return "the folder is gone" if marks and not (folder / "a" / "b" / "c").is_dir() else None

    report = show(f"folder, {there or 'nothing'} there before", sweep(disk.log, check, states=60))
    assert (report.lost, report.corrupt) == (0, 0), report.failures[:5]
