"""Soak: a real ext4 file system is cut off under a writing process, mounted again, and judged."""

import random
import threading
from pathlib import Path

import pytest

from tests.crash import realcut
from tests.crash.figures import record
from tests.crash.forkserver import ForkServer
from tests.crash.judge import HEADS

CUTS = 40


@pytest.mark.soak
@pytest.mark.parametrize("files", [False, True], ids=["SQLite", "files"])
def test_nothing_is_lost_when_a_real_file_system_is_cut_off(tmp_path: Path, files: bool) -> None:
    chance, found, acks = random.Random(7), dict.fromkeys(HEADS, 0), 0
    with ForkServer() as trials, ForkServer(forking=False) as judges:
        for cut in range(CUTS):
            (folder := tmp_path / str(cut)).mkdir()
            try:
                image = realcut.Image(folder)
                image.__enter__()
            except OSError as why:
                print(f"no loop device can be mounted here: {why}")
                pytest.skip(f"no loop device can be mounted here: {why}")
            target = f"files:{image.place}/store" if files else f"{image.place}/perdure.db"
            timer = threading.Timer(0.02 + 0.4 * chance.random(), image.cut)
            timer.start()
            ended = trials.run(realcut.write_until_cut, target=target, patience=20)
            timer.join()
            image.unmount()
            image.mount()
            if begun := ended.told("begun"):
                verdict = judges.call(realcut.judge_cut, target=target, acks=ended.told("ack"), begun=begun[0])
                acks += len(ended.told("ack"))
                for head in HEADS:
                    found[head] += bool(verdict[head])
                assert not any(verdict.values()), verdict
            image.unmount()
            image.file.unlink()
    name = f"ext4 shut down, {'files' if files else 'SQLite'}"
    record("real cuts", ("cuts", "acknowledged", *HEADS), (name, CUTS, acks, *found.values()))
    assert acks > 1000
