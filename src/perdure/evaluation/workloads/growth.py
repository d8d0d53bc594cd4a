"""The workload `growth`: what a step, a resume and a fork cost when the history grows.

Claim. In a session of Perdure, the bytes written for a step do not grow with the history; with compaction the
checkpoint does not either, and a step, a cold resume and a fork take the same time. In a blob all of them grow with it.

Method. Histories of 100 to 100,000 messages of about 1 KB, in text that does not compress, are built in bulk, once for
each system and length. Each trial is a fresh process on copies of them: a cold resume to the next answer, timed turns
(a message, two model calls, one tool, an answer) with the bytes that they write, a fork to its first answer, and a
resume after all checkpoints were deleted. The files are in the page cache, as they are after a crash of a process. A
round is one trial of each system in a changing order; ratios are taken within a round, over five rounds. A system is
stopped at the length at which a step takes longer than the cap, which the report names. Compaction is measured on and
off; Perdure keeps the whole history in both cases, while a blob with compaction loses it. Two peers that keep a
conversation take part as their documentation shows it: a thread of LangGraph and a session of the OpenAI Agents SDK.

Oracle. `verifiers/growth.py`, which does not import Perdure: each session has the history that it is said to have, and
each timed step is recorded. Bytes are counted by the kernel (bytes passed to `write`), on PostgreSQL by its own log.

Refuted if, on a store of Perdure, the bytes of a step at the longest history are more than 1.5 times those at the
shortest, or in every round a step with compaction takes more than 1.5 times as long. Void, if the bytes of a step of
the whole blob, which must grow with its history, do not: then the instrument does not see growth.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from perdure.errors import ConfigError
from perdure.evaluation import substrates
from perdure.evaluation.crash.system import missing
from perdure.evaluation.growth.growth_cell import GrowthCell, GrowthFigures
from perdure.evaluation.growth.history_copy import HistoryShelf, run_cells
from perdure.evaluation.growth.report import ALL, CONTROL, PEERS, summarise
from perdure.evaluation.peers import peer
from perdure.evaluation.report.model import WorkloadReport
from perdure.evaluation.workload import Form, Result, Trial

ROUNDS = 5
LENGTHS = {Form.SHORT: [100, 1_000], Form.FULL: [100, 1_000, 10_000, 100_000]}
STEPS = {Form.SHORT: 5, Form.FULL: 10}
CAP = {Form.SHORT: 2.0, Form.FULL: 10.0}  # seconds for one step
MOST = 10_000  # messages of those below; the report says where they stopped
LONG = (
    "perdure/postgres/whole/synced",
    "perdure/files/whole/synced",
    "blob/json/result-only/synced",
    "blob/json/intent+key/synced",
)  # only in the full form, and not at its longest history
NOT_OF_PEERS = ("fork", "resume_without_checkpoint", "checkpoint")  # figures


class Growth:
    """What a step, a resume and a fork cost at each length of the history."""

    name = "growth"
    lanes = 1

    def trials(self, form: Form, rounds: int = 0) -> list[Trial]:
        systems = [system for system in ALL if form is Form.FULL or system not in LONG]
        found = []
        for number in range(rounds or ROUNDS):
            first = number % len(systems)
            for system in systems[first:] + systems[:first]:
                lengths = [one for one in LENGTHS[form] if system not in (*LONG, *PEERS) or one <= MOST]
                parameters = {"round": number, "lengths": lengths, "steps": STEPS[form], "cap": CAP[form]}
                id = f"r{number}-{'-'.join(system.split('/')[:3])}".replace("+", "-")
                found.append(Trial(id=id, system=system, parameters=parameters))
        return found

    def run(self, trial: Trial, folder: Path) -> Result:
        given, substrate = trial.parameters, trial.system.split("/")[1]
        shelf = HistoryShelf(folder.parents[2] / "histories", trial.system)  # beside the raw files
        if reason := missing(trial.system):
            return Result.not_run(trial, reason)
        try:
            shelf.build(given["lengths"])
        except ConfigError as error:
            return Result.not_run(trial, str(error))
        addresses = {messages: shelf.copy(messages, folder / f"copy-{messages}") for messages in given["lengths"]}
        printed = run_cells(
            [
                GrowthCell(
                    system=trial.system, address=address, messages=messages, steps=given["steps"], cap=given["cap"]
                )
                for messages, address in addresses.items()
            ]
        )
        (folder / "cells.jsonl").write_bytes(printed)
        for messages, address in addresses.items():
            substrates.drop(address)
            shutil.rmtree(folder / f"copy-{messages}", ignore_errors=True)
        measures: dict[str, float] = {}
        for line in printed.splitlines():
            cell = msgspec.json.decode(line, type=GrowthFigures)
            figures = msgspec.structs.asdict(cell)
            for name in NOT_OF_PEERS if trial.system in PEERS else ():
                del figures[name]
            measures |= {f"{name}@{cell.messages}": float(value) for name, value in figures.items()}
            measures[f"rest@{cell.messages}"] = float(shelf.size(cell.messages))
        name = trial.system.split("/")[0]
        versions = peer(name).describe().versions if trial.system in PEERS else substrates.versions_of(substrate)
        return Result.of(trial, measures=measures, versions=versions)

    def summarise(self, results: list[Result]) -> WorkloadReport:
        return summarise(results)


WORKLOAD = Growth
__all__ = ["CONTROL", "WORKLOAD", "Growth"]
