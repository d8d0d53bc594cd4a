"""Soak: a real ext4 file system is cut off under a writing process, mounted again, and judged."""

import random
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.crash import realcut
from tests.crash.figures import record
from tests.crash.forkserver import Lane, Lanes
from tests.crash.judge import HEADS, Verdict, verdict

CUTS = 40


def cut_once(folder: Path, files: bool, after: float, lane: Lane) -> tuple[int, Verdict]:
    """Write, cut, mount again, judge; how many answers were received before the cut, and the verdict."""
    folder.mkdir()
    with realcut.Image(folder) as image:
        target = f"files:{image.place}/store" if files else f"{image.place}/perdure.db"
        timer = threading.Timer(after, image.cut)
        timer.start()
        ended = lane.trials.run(realcut.write_until_cut, target=target)
        timer.join()
        image.unmount()
        image.mount()
        acks = [ack for ack in ended.told("ack") if ack[2] < image.cut_at]
        if not (begun := ended.told("begun")):
            return 0, verdict()
        more = {"acks": ended.told("ack"), "begun": begun[0], "cut_at": image.cut_at}
        return len(acks), lane.judges.call(realcut.judge_cut, target=target, **more)


@pytest.mark.soak
@pytest.mark.parametrize("files", [False, True], ids=["SQLite", "files"])
def test_nothing_is_lost_when_a_real_file_system_is_cut_off(lanes: Lanes, tmp_path: Path, files: bool) -> None:
    try:
        (tmp_path / "try").mkdir()
        with realcut.Image(tmp_path / "try"):
            pass
    except OSError as why:
        print(f"no loop device can be mounted here: {why}")
        pytest.skip(f"no loop device can be mounted here: {why}")
    chance = random.Random(7)
    after = [0.02 + 0.4 * chance.random() for _ in range(CUTS)]
    trials = [partial(cut_once, tmp_path / str(number), files, seconds) for number, seconds in enumerate(after)]
    results = lanes.each(trials)
    acks = sum(told for told, _ in results)
    found = [sum(bool(one[head]) for _, one in results) for head in HEADS]
    name = f"ext4 shut down, {'files' if files else 'SQLite'}"
    record("real cuts", ("cuts", "acknowledged", *HEADS), (name, CUTS, acks, *found))
    assert [one for _, one in results if any(one.values())] == []
    assert acks > 1000
