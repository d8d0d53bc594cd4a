"""One comment: the program that the demo kills once, killed here at each of its moments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.testing import Sink
from tests.tidy.source import ROOT

SCRIPT = ROOT / "examples" / "one_comment.py"

SWEEP = """
import sys
from perdure.cli.app import load
from perdure.runtime.program import PROGRAMS
from perdure.testing import Sink, crash_sweep

load([sys.argv[1]])
with Sink() as sink:
    bound, given = PROGRAMS["review"].bind(pr=7), {"COMMENTS_URL": "{sink}"}
    report = crash_sweep(bound, app=sys.argv[1], sink=sink, store=sys.argv[2], environment=given)
print(report)
sys.exit(not report.ok)
"""


def live(store: Path, url: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COMMENTS_URL": url} | more
    line = [sys.executable, str(SCRIPT), str(store)]
    return subprocess.run(line, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def test_it_reads_once_and_posts_once_however_often_it_is_run(tmp_path: Path) -> None:
    with Sink() as sink:
        first, second = (live(tmp_path / "review.db", sink.url) for _ in range(2))
        assert first.stdout.splitlines()[0] == "reading the diff of pull request 7"
        assert first.stdout.splitlines()[1:] == second.stdout.splitlines()
        assert second.stdout.startswith("done: comment ")
        assert sink.counts() == {"kept": 1, "posted": 1}


def test_told_to_stop_it_goes_on_when_whoever_started_it_is_gone(tmp_path: Path) -> None:
    with Sink() as sink:
        ended = live(tmp_path / "review.db", sink.url, COMMENTS_STOP="1")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "stopped: the service has the comment" in ended.stdout


@pytest.mark.slow
def test_killed_at_each_of_its_moments_it_leaves_one_comment(tmp_path: Path) -> None:
    line = [sys.executable, "-c", SWEEP, str(SCRIPT), str(tmp_path / "stores")]
    swept = subprocess.run(line, capture_output=True, text=True)
    assert swept.returncode == 0, swept.stdout + swept.stderr
