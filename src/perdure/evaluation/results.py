"""The files of an evaluation. The session keeps only progress; everything that is published comes from these files.

    FOLDER/plan.json                 what was asked for: workloads, form, seed, digest of the protocol; written first
    FOLDER/session.db                the session that runs it: progress and nothing else
    FOLDER/raw/WORKLOAD/TRIAL/       what a trial left: `trial.json`, and the files that the verifier reads
    FOLDER/raw/WORKLOAD/attempts     one line for each time that a trial was begun
    FOLDER/results.jsonl             one line per trial: `workload.Result`, with the verdicts of the verifier
    FOLDER/report.html, report.md

A trial has happened if it has `trial.json`, which is written whole, synced, and last. A trial that was interrupted has
none; its folder is emptied and it runs again, and both attempts are counted. A trial that raised an error is void; what
it left is in `raised`, with the traceback.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import traceback
from collections import Counter
from pathlib import Path

import msgspec

import perdure
from perdure.clock import SystemClock
from perdure.durable import make_folder, sync_file, sync_folder, write_whole
from perdure.errors import PerdureError
from perdure.evaluation.catalogue import verifier_of
from perdure.evaluation.peers import PeerDescription
from perdure.evaluation.workload import Form, Result, Trial, Workload

RAW, RESULTS, PLAN, RAISED = "raw", "results.jsonl", "plan.json", "raised"
SYSTEM_CLOCK = SystemClock()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What an evaluation is to do. It does not change when the evaluation resumes."""

    workloads: list[str]
    form: Form
    seed: int
    protocol: str
    version: str
    only: list[str] = []  # trials; without any, all of them
    rounds: int = 0  # how often each trial is repeated; 0: as often as the form says
    uid: str = ""  # the processes of the trials carry it
    machine: dict[str, str] = {}  # on which the run began, and when
    settings: dict[str, dict[str, str]] = {}  # of each system, as far as they decide what is durable
    peers: dict[str, PeerDescription | str] = {}  # or why they could not be run


class TrialVerdict(msgspec.Struct, frozen=True):
    """One line of a verifier."""

    trial: str
    verdicts: dict[str, int] = {}
    findings: dict[str, str] = {}
    void: str = ""


HINT = "The raw files are complete. Run the verifier by hand to see what is wrong."


def seeded(trial: Trial, plan: Plan) -> Trial:
    """The trial with a seed of its own, which depends on the seed of the run and on the trial alone."""
    from hashlib import sha256

    mixed = sha256(f"{plan.seed} {trial.id}".encode()).digest()
    return msgspec.structs.replace(trial, seed=int.from_bytes(mixed[:4]) if trial.seed == 0 else trial.seed)


def result_of(folder: Path, workload: str, trial: str) -> Result | None:
    """The result of a trial that has happened."""
    try:
        return msgspec.json.decode((folder / RAW / workload / trial / "trial.json").read_bytes(), type=Result)
    except FileNotFoundError:
        return None


def run_trial(folder: Path, workload: Workload, trial: Trial) -> Result:
    """Run a trial that has not happened yet, and write its result."""
    known = result_of(folder, workload.name, trial.id)
    if known is not None:
        return known
    home = folder / RAW / workload.name
    make_folder(home)
    _append(home / "attempts", trial.id.encode() + b"\n")
    own = home / trial.id
    shutil.rmtree(own, ignore_errors=True)
    make_folder(own)
    began = SYSTEM_CLOCK.now()
    result = msgspec.structs.replace(
        _run(workload, trial, own), workload=workload.name, began=began, ended=SYSTEM_CLOCK.now(),
        load=round(os.getloadavg()[0], 2), perdure=perdure.__version__,
    )  # fmt: skip
    sync_tree(own)
    write_whole(own / "trial.json", msgspec.json.encode(result))
    return result


def _run(workload: Workload, trial: Trial, own: Path) -> Result:
    """The result of a trial. One that raises is void: its files are kept where no verifier takes them for a result."""
    try:
        return workload.run(trial, own)
    except Exception as error:
        raised = own / RAISED
        left = list(own.iterdir())
        raised.mkdir()
        for path in left:
            path.rename(raised / path.name)
        (raised / "traceback.txt").write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        return Result.void(trial, f"{type(error).__name__}: {error}")


def sync_tree(folder: Path) -> None:
    """Make every file below a folder durable."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        elif path.is_dir():
            sync_folder(path)
    sync_folder(folder)


def verify(folder: Path, workload: str) -> dict[str, TrialVerdict]:
    """Run the verifier of a workload over its raw files: a process of its own, without Perdure."""
    command = [sys.executable, "-I", "-S", str(verifier_of(workload)), str(folder / RAW / workload)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PerdureError(f"The verifier of {workload} failed: {done.stderr.strip()[-500:]}", hint=HINT)
    lines = [msgspec.json.decode(line, type=TrialVerdict) for line in done.stdout.splitlines() if line]
    return {line.trial: line for line in lines}


def collect(folder: Path, workload: str, trials: list[Trial]) -> list[Result]:
    """The results of all trials of a workload, with their verdicts. A trial that is missing is an error of ours."""
    verdicts = verify(folder, workload)
    attempts = Counter((folder / RAW / workload / "attempts").read_text(encoding="utf-8").splitlines())
    results = []
    for trial in trials:
        result = result_of(folder, workload, trial.id)
        if result is None:
            raise PerdureError(f"The trial {trial.id} of {workload} has no result.", hint="Run it with --resume.")
        found = verdicts.get(trial.id)
        if result.outcome == "counted" and found is None:
            raise PerdureError(f"The verifier of {workload} has no verdict on the trial {trial.id}.", hint=HINT)
        if found is not None and result.outcome == "counted":
            result = msgspec.structs.replace(result, verdicts=found.verdicts, findings=found.findings)
            if found.void:
                result = msgspec.structs.replace(result, outcome="void", reason=found.void)
        results.append(msgspec.structs.replace(result, attempts=attempts[trial.id]))
    return results


def write_results(folder: Path, results: list[Result]) -> None:
    """Write `results.jsonl`."""
    write_whole(folder / RESULTS, b"".join(msgspec.json.encode(one) + b"\n" for one in results))


def read_results(folder: Path) -> list[Result]:
    """Read `results.jsonl`."""
    lines = (folder / RESULTS).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Result) for line in lines]


def read_plan(folder: Path) -> Plan | None:
    """The plan of the evaluation in a folder."""
    try:
        return msgspec.json.decode((folder / PLAN).read_bytes(), type=Plan)
    except FileNotFoundError:
        return None


def _append(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        file.write(line)
        sync_file(file)
