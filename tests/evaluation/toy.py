"""A workload that costs nothing: each trial writes a number, and the verifier adds up what it finds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from perdure.evaluation import catalogue
from perdure.evaluation.report.model import (
    Cell,
    Control,
    Hypothesis,
    LinePlot,
    Matrix,
    ReportTable,
    Section,
    Series,
    Tone,
    WorkloadReport,
)
from perdure.evaluation.run import trial_process
from perdure.evaluation.workload import Form, Result, Trial, counted

RAISE = "TOY_RAISE"  # a trial that raises an error
LEAVE = "TOY_LEAVE"  # a trial that starts a process, which starts another one out of its group, before the kill
KILL = "TOY_KILL"  # a trial during which the process kills itself, once: the file below it is the memory of that


CHILD = """
import subprocess, sys, time
orphan = [sys.executable, "-c", "import time; time.sleep(600)"]
subprocess.Popen(orphan, start_new_session=True, stdout=subprocess.DEVNULL)
print("ready", flush=True)
time.sleep(600)
"""


class ToyWorkload:
    """The smallest workload."""

    name = "toy"
    lanes = 2

    def trials(self, form: Form, rounds: int = 0) -> list[Trial]:
        count = 12 if form is Form.SHORT else 24
        made = [Trial(id=f"t{n}", system="toy/none/default/synced", parameters={"n": n}) for n in range(count)]
        return [*made, Trial(id="absent", system="missing/none/default/synced"), Trial(id="control", system="control")]

    def run(self, trial: Trial, folder: Path) -> Result:
        if trial.id == "absent":
            return Result.not_run(trial, "it is not installed")
        caught = int(trial.id != "control" or "TOY_MISS" in os.environ)
        (folder / "number.txt").write_text(str(caught), encoding="utf-8")
        if trial.id == os.environ.get(RAISE):
            raise ValueError("the trial has an error")
        flag = Path(os.environ.get(KILL, "/nowhere"))
        if trial.id == os.environ.get(LEAVE) and not flag.exists():
            command = [sys.executable, "-c", CHILD]
            child = trial_process.start(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            trial_process.first_line(child, "the child")
        if trial.id == flag.name and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Result.of(trial, measures={"seconds": 0.5}, versions={"toy": "1"})

    def summarise(self, results: list[Result]) -> WorkloadReport:
        own = [one for one in counted(results) if one.trial != "control"]
        good = sum(one.verdicts["good"] for one in own)
        control = [one for one in results if one.trial == "control"]
        caught = sum(not one.verdicts["good"] for one in counted(control))
        plot = LinePlot("growth <b>", "size", "time", [Series("toy & co", [(1, 2), (10, 30)])], log_x=True, log_y=True)
        tile = Matrix("kills", ["before", "after"], ["toy"], [[Cell("1/1"), Cell("<b>bad</b>", Tone.BAD)]])
        return WorkloadReport(
            title="Toy",
            text="Costs <nothing>.",
            sections=[
                Section(title="Lines", plot=plot, table=ReportTable(["size", "time"], [["1", "2"]])),
                Section(
                    title="Tiles", plot=tile, table=ReportTable(["system", "before"], [["toy", Cell("x", Tone.BAD)]])
                ),
            ],
            controls=[Control("a planted mistake", caught, len(control))],
            hypotheses=[Hypothesis("every number is there", f"{good}/{len(own)}", good == len(own))],
        )


WORKLOAD = ToyWorkload
VERIFIER = """
import json, pathlib, sys
for home in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    if (home / "number.txt").exists() and (home / "trial.json").exists():
        good = int((home / "number.txt").read_text())
        print(json.dumps({"trial": home.name, "verdicts": {"good": good}, "findings": {"seen": "number"}}))
"""


def register(folder: Path) -> None:
    """Make it the only workload of this process."""
    (folder / "toy.py").write_text(VERIFIER, encoding="utf-8")
    catalogue.WORKLOADS.clear()
    catalogue.WORKLOADS["toy"] = "tests.evaluation.toy"
    catalogue.VERIFIERS = folder
