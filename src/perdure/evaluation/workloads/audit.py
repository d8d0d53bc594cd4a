"""The workload `audit`: the questions of people who must find out what happened, asked of a long history.

Claim. Perdure answers every question as the truth is, and what an answer costs does not grow with the history outside
the time that is asked about. An archive of session blobs reads its whole history for each question, and cannot answer
questions about what belongs to no session.

Method. A generator writes histories of 10,000 to 1,000,000 events (short form: to 40,000) in bulk and keeps the truth
about the last 2,000. Thirteen questions are asked about that time: failed runs, waiting sessions, retries, exemptions,
a touched target, approvals, doubts, verdicts, repeated effects, refused calls, incidents, costs, and accesses. Perdure
answers with `perdure audit`, each time from a store that was just opened; the blob is given every event that Perdure
recorded, in one document for each session. A store of text files is read whole when it is opened; it is measured up to
100,000 events and takes no part in the claim on costs. A round has one trial of each system in a changing order, in
fresh processes; ratios are taken within a round, over five rounds.

Oracle. `verifiers/audit.py`, which does not import Perdure, compares the facts of each answer with the truth. Bytes are
pages that the statements touched, or bytes of documents that were read.

Refuted by one answer of Perdure that is not the truth, or if in every round the time or the bytes of all answers at the
longest history are more than twice those at the shortest. Void, if an answer that lacks one row is not found wrong, or
if the bytes that the blob reads do not grow with its history: then the instrument does not see what it is to measure.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import msgspec

from perdure.errors import ConfigError
from perdure.evaluation import services, substrates
from perdure.evaluation.audit.audit_process import AuditAnswer, AuditJob
from perdure.evaluation.audit.report import FILES, MEASURED, PLANTED, RESULTS_ONLY, summarise
from perdure.evaluation.report.model import WorkloadReport
from perdure.evaluation.run import trial_process
from perdure.evaluation.workload import Form, Result, Trial

ROUNDS = 5
LENGTHS = {Form.SHORT: [4_000, 40_000], Form.FULL: [10_000, 100_000, 1_000_000]}

LONGEST_FILES = 100_000  # events; a store of text files is held in memory

_databases: dict[tuple[str, int], str] = {}  # of the shared server, by its folder and the length


class AuditWorkload:
    """What the questions of auditors are answered with, and what an answer costs."""

    name = "audit"
    lanes = 1

    def trials(self, form: Form, rounds: int = 0) -> list[Trial]:
        found = []
        for number in range(rounds or ROUNDS):
            first = number % len(MEASURED)
            once = (RESULTS_ONLY, PLANTED) if number == 0 else ()
            for system in (*MEASURED[first:], *MEASURED[:first], *once):
                lengths = LENGTHS[form] if system in MEASURED else LENGTHS[form][:1]
                lengths = [one for one in lengths if system != FILES or one <= LONGEST_FILES]
                id = f"r{number}-{'-'.join(system.split('/')[:3])}"
                found.append(Trial(id=id, system=system, parameters={"round": number, "lengths": lengths}))
        return found

    def run(self, trial: Trial, folder: Path) -> Result:
        measures: dict[str, float] = {}
        shelf = folder.parents[2] / "audit-histories"  # beside the raw files, and shared by the rounds
        for events in trial.parameters["lengths"]:
            try:
                job = _history(trial.system, events, shelf)
            except ConfigError as error:
                return Result.not_run(trial, str(error))
            printed = _run(job)
            (folder / f"answers-{events}.jsonl").write_bytes(printed)
            shutil.copy(job.truth, folder / f"truth-{events}.json")
            for line in printed.splitlines():
                said = msgspec.json.decode(line, type=AuditAnswer)
                if said.facts is not None:
                    own = {"seconds": said.seconds, "rows": said.rows, "bytes": said.bytes}
                    measures |= {f"{said.question}.{name}@{events}": float(value) for name, value in own.items()}
        return Result.of(trial, measures=measures, versions=substrates.versions_of(trial.system.split("/")[1]))

    def summarise(self, results: list[Result]) -> WorkloadReport:
        return summarise(results)


def _history(system: str, events: int, shelf: Path) -> AuditJob:
    """The history of a system, made when it is first asked for. One that was interrupted is made again."""
    substrate = system.split("/")[1]
    home = shelf / f"{substrate}-{events}"
    if substrate == substrates.POSTGRES:
        key = str(services.postgres().folder), events
        address = _databases.get(key)
        is_made = address is not None
        address = address or services.postgres().create_database()
        _databases[key] = address
        home.mkdir(parents=True, exist_ok=True)
    else:
        is_made = (home / "truth.json").exists()
        if not is_made:
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
        names = {"json": f"{home}/archive", substrates.FILES: f"files:{home}/store"}
        address = names.get(substrate, f"{home}/store.db")
    job = AuditJob(system=system, address=address, truth=str(home / "truth.json"), events=events)
    if not is_made:
        _run(msgspec.structs.replace(job, build=True))
    return job


def _run(job: AuditJob) -> bytes:
    command = [sys.executable, "-P", "-m", "perdure.evaluation.audit.audit_process", msgspec.json.encode(job).decode()]
    return trial_process.run(command)


WORKLOAD = AuditWorkload
