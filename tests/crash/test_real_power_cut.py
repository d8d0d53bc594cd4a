"""Soak: a real ext4 file system is cut off under a writing process, mounted again, and judged."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure.testing.sweep.server_pool import ServerPool, TrialServers
from tests.crash.support import real_power_cut
from tests.crash.support.verdict import HEADS, Verdict
from tests.figures import record

pytestmark = pytest.mark.soak


def cut_once(folder: Path, files: bool, after: int, plant: str | None, servers: TrialServers) -> tuple[int, Verdict]:
    """Write, cut, mount again, judge; how many answers were received before the cut, and the verdict."""
    folder.mkdir()
    with real_power_cut.Ext4Image(folder) as image:
        target, place = f"files:{image.place}/store" if files else f"{image.place}/perdure.db", str(image.place)
        ended = servers.forking.run(
            real_power_cut.write_until_cut, target=target, place=place, after=after, plant=plant
        )
        image.unmount()
        image.mount()
        acks, ((begun, cut_at),) = ended.values("ack"), zip(ended.values("begun"), ended.values("cut"), strict=True)
        found = servers.warm.call(real_power_cut.judge_cut, target=target, acks=acks, begun=begun, cut_at=cut_at)
        return sum(ack[2] < cut_at for ack in acks), found


@pytest.fixture
def cut_off(pool: ServerPool, tmp_path: Path) -> Callable[..., tuple[int, list[Verdict]]]:
    """Cut a file system off many times; how many answers were received before, and what was wrong afterwards."""
    try:
        (tmp_path / "try").mkdir()
        with real_power_cut.Ext4Image(tmp_path / "try"):
            pass
    except OSError as why:
        print(f"no loop device can be mounted here: {why}")
        pytest.skip(f"no loop device can be mounted here: {why}")

    def cut_off(name: str, *, files: bool, plant: str | None = None, cuts: int = 40) -> tuple[int, list[Verdict]]:
        chance = random.Random(7)
        after = [chance.randrange(2, 200) for _ in range(cuts)]
        trials = [partial(cut_once, tmp_path / str(number), files, acks, plant) for number, acks in enumerate(after)]
        results = pool.each(trials)
        acks = sum(received for received, _ in results)
        found = [sum(bool(one[head]) for _, one in results) for head in HEADS]
        record("real cuts", ("cuts", "acknowledged", *HEADS), (f"ext4 shut down, {name}", cuts, acks, *found))
        return acks, [one for _, one in results if any(one.values())]

    return cut_off


@pytest.mark.parametrize("files", [False, True], ids=["SQLite", "files"])
def test_nothing_is_lost_when_a_real_file_system_is_cut_off(cut_off: Callable[..., Any], files: bool) -> None:
    acks, wrong = cut_off("files" if files else "SQLite", files=files)
    assert wrong == []
    assert acks > 1000


def test_a_store_that_does_not_sync_is_caught_by_a_real_cut(cut_off: Callable[..., Any]) -> None:
    """The positive control."""
    _, wrong = cut_off("SQLite, no sync: must lose", files=False, plant="no sync", cuts=8)
    assert any(one["lost"] or one["broken"] or one["stuck"] for one in wrong)
