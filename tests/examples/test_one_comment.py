"""The program that the demo kills once, killed here at each of its kill points."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.testing import Sink
from tests.seed import ALL, chance
from tests.tidy.source import ROOT

SCRIPT = ROOT / "examples" / "one_comment.py"


def live(store: Path, url: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COMMENTS_URL": url} | more
    line = [sys.executable, str(SCRIPT), str(store)]
    return subprocess.run(line, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)


@pytest.mark.slow
def test_program_reads_and_posts_once_in_two_runs(tmp_path: Path) -> None:
    with Sink() as sink:
        first, second = (live(tmp_path / "review.db", sink.url) for _ in range(2))
        assert first.stdout.splitlines()[0] == "reading the diff of pull request 7"
        assert first.stdout.splitlines()[1:] == second.stdout.splitlines()
        assert second.stdout.startswith("done: comment ")
        assert sink.counts() == {"kept": 1, "posted": 1}


@pytest.mark.slow
def test_paused_program_continues_when_its_input_is_closed(tmp_path: Path) -> None:
    with Sink() as sink:
        ended = live(tmp_path / "review.db", sink.url, COMMENTS_STOP="1")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "stopped: the service has the comment" in ended.stdout


@pytest.mark.slow
def test_one_comment_remains_after_a_kill_at_any_point(tmp_path: Path) -> None:
    step = 1 if ALL else 4
    first = chance().randrange(1, step + 1)
    line = [sys.executable, "-m", "tests.examples.kill_points", str(tmp_path), str(first), str(step)]
    ended = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    lives = [line.split()[1:] for line in ended.stdout.splitlines() if line.startswith("moment ")]
    *killed, last = lives
    assert len(killed) > 30 // step, ended.stderr
    assert set(map(tuple, killed)) == {(str(-signal.SIGKILL), "0", "1")}
    assert last == ["0", "0", "1"]
