"""An evaluation continues, whatever file it opened, renamed or made, or process it started, when it was killed.

A kill falls into the plan, the session, a batch, `attempts`, `trial.json`, the verifier, or the report.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from perdure.evaluation.results import read_plan, read_results
from perdure.evaluation.run.trial_process import left_over
from tests.seed import sample

COMMAND = """
import os, signal, sys
from pathlib import Path
from tests.evaluation import toy
from perdure.evaluation import evaluate
from perdure.cli import main
toy.register(Path(sys.argv.pop(1)))
moment, met = int(sys.argv.pop(1)), []

def hook(event, given):
    if event == "subprocess.Popen" or event in ("open", "os.rename", "os.mkdir") and "out" in str(given[0]):
        met.append(event)
        if len(met) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
try:
    main()
finally:
    Path("moments").write_text(str(len(met)))
"""


def run(folder: Path, moment: int, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", COMMAND, str(folder), str(moment), "evaluate", "--to", "out", "--json", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False)


def outcomes(folder: Path) -> dict[str, tuple[str, dict[str, int]]]:
    return {one.trial: (one.outcome, one.verdicts) for one in read_results(folder / "out")}


@pytest.mark.slow
def test_an_evaluation_that_is_killed_anywhere_continues(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    assert run(whole, 0).returncode == 0
    for moment in sample(range(1, int((whole / "moments").read_text())), 5):
        folder = tmp_path / f"m{moment}"
        folder.mkdir()
        assert run(folder, moment).returncode == -signal.SIGKILL, moment
        done = run(folder, 0, "--resume" if (folder / "out" / "plan.json").exists() else "--short")
        assert done.returncode == 0, (moment, done.stderr)
        assert msgspec.json.decode(done.stdout)["counted"] == 13
        assert outcomes(folder) == outcomes(whole), moment
        plan = read_plan(folder / "out")
        assert plan is not None
        assert left_over(plan.uid) == []
        assert sorted(os.listdir(folder / "out")) == sorted(os.listdir(whole / "out")), moment
