"""An evaluation is a session: killed anywhere it continues, and its report comes from the raw files alone."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.errors import PerdureError
from perdure.evaluation import catalogue
from perdure.evaluation.evaluate import conclude, evaluate, prepare
from perdure.evaluation.report import conclusion
from perdure.evaluation.report.conclusion import Conclusion
from perdure.evaluation.results import read_plan, read_results, result_of
from perdure.evaluation.run.trial_process import left_over
from perdure.evaluation.workload import Form
from perdure.testing.proxy import wait_until
from tests.evaluation import toy

COMMAND = """
import sys
from pathlib import Path
from tests.evaluation import toy
toy.register(Path(sys.argv.pop(1)))
from perdure.cli import main
main()
"""


@pytest.fixture
def scripts(folder: Path) -> Iterator[Path]:
    """The folder with the toy's verifier; the catalogue is restored afterwards."""
    before, place = dict(catalogue.WORKLOADS), catalogue.VERIFIERS
    toy.register(folder)
    yield folder
    catalogue.WORKLOADS.clear()
    catalogue.WORKLOADS.update(before)
    catalogue.VERIFIERS = place


def run_command(scripts: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, str(scripts), "evaluate", *words],
        cwd=scripts,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def run_here(folder: Path, **more: Any) -> Conclusion:
    plan = prepare(folder, [], Form.SHORT, 1, resume=False)
    return evaluate(folder, plan, **more)


def test_killed_evaluation_resumes_and_repeats_only_the_interrupted_trial(scripts: Path) -> None:
    flag = scripts / "t9"
    killed = run_command(scripts, "--to", "out", "--seed", "7", TOY_KILL=str(flag))
    assert killed.returncode == -signal.SIGKILL
    before = {path: path.stat().st_mtime_ns for path in (scripts / "out" / "raw").glob("toy/*/trial.json")}
    assert before
    assert not (scripts / "out" / "results.jsonl").exists()
    resumed = run_command(scripts, "--to", "out", "--resume", "--json", TOY_KILL=str(flag))
    assert resumed.returncode == 0, resumed.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before
    attempts = {one.trial: one.attempts for one in read_results(scripts / "out")}
    assert attempts["t9"] == 2
    assert msgspec.json.decode(resumed.stdout)["counted"] == 13


def test_command_shows_progress_and_the_verdict(scripts: Path) -> None:
    done = run_command(scripts, "toy", "--to", "out")
    assert done.returncode == 0, done.stderr
    assert "toy: 14 of 14 trials" in done.stderr
    assert "holds: every number is there: 12/12" in done.stdout
    assert "13 counted, 0 void, 1 not run" in done.stdout


def test_trial_that_raises_is_void_and_the_others_run(scripts: Path) -> None:
    done = run_command(scripts, "--to", "out", TOY_RAISE="t3")
    assert done.returncode == 0, done.stderr
    assert "12 counted, 1 void, 1 not run" in done.stdout
    [void] = [one for one in read_results(scripts / "out") if one.outcome == "void"]
    assert (void.trial, void.reason) == ("t3", "ValueError: the trial has an error")
    assert "the trial has an error" in (scripts / "out/raw/toy/t3/raised/traceback.txt").read_text()


def test_trial_whose_folder_was_removed_runs_again(scripts: Path) -> None:
    run_command(scripts, "--to", "out", TOY_RAISE="t3")
    shutil.rmtree(scripts / "out" / "raw" / "toy" / "t3")
    assert "13 counted, 0 void" in run_command(scripts, "--to", "out", "--resume").stdout


def test_control_that_raises_voids_the_run(scripts: Path) -> None:
    done = run_command(scripts, "--to", "out", TOY_RAISE="control")
    assert done.returncode == 1
    assert "control a planted mistake: 0 of 1 caught" in done.stdout


def test_failed_evaluation_continues_when_its_cause_is_gone(scripts: Path) -> None:
    obstacle = scripts / "out" / "raw" / "toy" / "attempts"
    plan = prepare(scripts / "out", [], Form.SHORT, 1, resume=False)
    obstacle.mkdir(parents=True)
    with pytest.raises(PerdureError):
        evaluate(scripts / "out", plan)
    obstacle.rmdir()
    resumed = run_command(scripts, "--to", "out", "--resume")
    assert resumed.returncode == 0, resumed.stderr


def test_killed_evaluation_leaves_no_process_that_resume_does_not_kill(scripts: Path) -> None:
    flag = scripts / "t9"
    run_command(scripts, "--to", "out", TOY_KILL=str(flag), TOY_LEAVE="t9")
    plan = read_plan(scripts / "out")
    assert plan is not None
    wait_until(lambda: len(left_over(plan.uid)) == 1, "the process of the trial has died with the evaluation")
    assert run_command(scripts, "--to", "out", "--resume", TOY_KILL=str(flag)).returncode == 0
    assert left_over(plan.uid) == []


def test_missed_control_voids_the_run(scripts: Path) -> None:
    done = run_command(scripts, "--to", "out", TOY_MISS="1")
    assert done.returncode == 1
    assert "Void" in done.stdout
    assert "this run is void" in (scripts / "out" / "report.html").read_text()
    assert "this run is void" in (scripts / "out" / "report.md").read_text()


def test_results_have_one_line_for_every_trial(scripts: Path) -> None:
    run_here(scripts / "out")
    lines = [msgspec.json.decode(line) for line in (scripts / "out" / "results.jsonl").read_bytes().splitlines()]
    assert len(lines) == 14
    first = lines[0]
    assert (first["workload"], first["trial"], first["system"]) == ("toy", "t0", "toy/none/default/synced")
    assert first["verdicts"] == {"good": 1}
    assert first["seed"] > 0
    assert {line["outcome"] for line in lines} == {"counted", "not run"}


def test_report_is_made_again_from_raw_files_alone(scripts: Path) -> None:
    made = run_here(scripts / "out")
    for name in ("session.db", "results.jsonl", "report.html"):
        (scripts / "out" / name).unlink()
    plan = prepare(scripts / "out", [], Form.SHORT, 1, resume=True)
    assert msgspec.to_builtins(conclude(scripts / "out", plan)) == msgspec.to_builtins(made)


def test_report_made_elsewhere_names_the_machine_of_the_run(scripts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_here(scripts / "out")
    before = (scripts / "out" / "report.md").read_text()
    for name in ("system", "processor", "cores", "file system", "commit", "strace", "began", "load at the start"):
        assert f"| {name} | " in before
    assert "### Time of each workload" in before
    monkeypatch.setattr(platform, "system", lambda: "Elsewhere")
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 99.0, 99.0))
    conclude(scripts / "out", prepare(scripts / "out", [], Form.SHORT, 1, resume=True))
    assert (scripts / "out" / "report.md").read_text() == before


def test_changed_raw_file_changes_the_verdict(scripts: Path) -> None:
    run_here(scripts / "out")
    (scripts / "out" / "raw" / "toy" / "t3" / "number.txt").write_text("0")
    plan = prepare(scripts / "out", [], Form.SHORT, 1, resume=True)
    assert conclude(scripts / "out", plan).refuted == ["every number is there"]


def test_seed_of_a_trial_depends_on_the_seed_of_the_run(scripts: Path) -> None:
    seeds: list[int] = []
    for seed in (1, 1, 2):
        out = scripts / f"out{len(seeds)}"
        evaluate(out, prepare(out, [], Form.SHORT, seed, resume=False))
        found = result_of(out, "toy", "t0")
        assert found is not None
        seeds.append(found.seed)
    assert seeds[0] == seeds[1] != seeds[2]


def test_existing_evaluation_is_not_overwritten(scripts: Path) -> None:
    run_here(scripts / "out")
    again = run_command(scripts, "--to", "out")
    assert again.returncode == 2
    assert "is not empty" in again.stderr
    assert run_command(scripts, "--to", "elsewhere", "--resume").returncode == 2


def test_unknown_workload_is_refused_by_name(scripts: Path) -> None:
    refused = run_command(scripts, "nothing", "--to", "out")
    assert refused.returncode == 2
    assert "No workload is called 'nothing'" in refused.stderr
    assert not (scripts / "out").exists()


def test_report_says_that_the_protocol_was_changed(scripts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_here(scripts / "out")
    monkeypatch.setattr(conclusion, "protocol_digest", lambda: "other")
    conclude(scripts / "out", prepare(scripts / "out", [], Form.SHORT, 1, resume=True))
    assert "The protocol was changed after this run began" in (scripts / "out" / "report.md").read_text()


def test_moved_folder_of_an_evaluation_still_resumes(scripts: Path) -> None:
    run_here(scripts / "out")
    (scripts / "out").rename(scripts / "moved")
    assert run_command(scripts, "--to", "moved", "--resume").returncode == 0
