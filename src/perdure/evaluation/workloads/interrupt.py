"""The workload `interrupt`: sessions that wait for days, while the schema, the program and the database change.

Claim. A session that was suspended by an older version of Perdure continues correctly after days, a migration, a move
to another database, and a change of its program that fits its records. If the change does not fit, it asks a person.

Method. The store was recorded by the last version of this repository with schema 7: 24 sessions had done an effect, and
wait for an answer, an approval, three days, or a message. A trial puts that store in place (a SQLite file, its rows in
PostgreSQL, or logs of text files that the same version wrote), migrates it, moves half of the sessions to another
database by bundles, and lets four days pass on a clock that is moved by hand. Then fresh processes declare the program
as it is now, the person says yes to everything, and every session is run. The program is the same, changed compatibly,
or changed so that it does not fit. Blobs do the same with one document for each session, once with the number of the
next step alone, and once with a digest of the program.

Oracle. `verifiers/interrupt.py`, which does not import Perdure: the result that the changed program must give, and what
an independent sink received: each effect of the rest once, and no effect of before again.

Refuted by one session of Perdure that is wrong, or that asks where the change fits. Void, if a planted change, which
reads the answer the wrong way round and ends as done, is not found wrong for every session in every trial.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from perdure.errors import ConfigError
from perdure.evaluation import services, substrates
from perdure.evaluation.interrupt.continuation import InterruptTrial
from perdure.evaluation.interrupt.older_store import put_older_store
from perdure.evaluation.report.model import (
    Cell,
    Control,
    Hypothesis,
    Matrix,
    ReportTable,
    Section,
    Tone,
    WorkloadReport,
)
from perdure.evaluation.run import trial_process
from perdure.evaluation.statistics import Share
from perdure.evaluation.workload import Form, Result, Trial, counted

SYSTEMS = (
    "perdure/sqlite/default/synced",
    "perdure/postgres/default/synced",
    "perdure/files/default/synced",
    "blob/json/cursor/synced",
    "blob/json/versioned/synced",
)
OURS = SYSTEMS[:3]
OTHER = {"sqlite": "postgres", "postgres": "sqlite", "files": "sqlite"}  # where half of the sessions are moved
CHANGES = ("same", "compatible", "incompatible", "planted")
ROUNDS = {Form.SHORT: 1, Form.FULL: 10}


class Interrupt:
    """Sessions that wait for days while everything around them changes."""

    name = "interrupt"
    lanes = 2

    def trials(self, form: Form, rounds: int = 0) -> list[Trial]:
        return [
            Trial(
                id=f"r{number}-{change}-{'-'.join(system.split('/')[:3])}",
                system=system,
                parameters={"change": change, "round": number},
            )
            for number in range(rounds or ROUNDS[form])
            for change in CHANGES
            for system in SYSTEMS
        ]

    def run(self, trial: Trial, folder: Path) -> Result:
        system, substrate, configuration, _ = trial.system.split("/")
        change = trial.parameters["change"]
        (folder / "about.jsonl").write_bytes(msgspec.json.encode({"change": change}) + b"\n")
        run = f"interrupt-{trial.id}-{trial.seed}"
        services.sink().run(run).forget()  # an attempt that was interrupted may have used it
        one, parts = InterruptTrial(folder=str(folder), change=change), ["blob"]
        if system == "blob":
            one = msgspec.structs.replace(one, versioned=configuration == "versioned")
        else:
            try:
                store, second = (substrates.store_address(name, folder) for name in (substrate, OTHER[substrate]))
            except ConfigError as error:
                return Result.not_run(trial, str(error))
            put_older_store(store)
            one, parts = msgspec.structs.replace(one, store=store, other=second), ["move", "continue"]
        environment = os.environ | {"PERDURE_SINK": services.sink().run(run).url}
        for part in parts:
            command = [sys.executable, "-P", "-m", "perdure.evaluation.interrupt.continuation", part]
            trial_process.run([*command, msgspec.json.encode(one).decode()], env=environment)
        kept = [line["body"] for line in services.sink().log(run) if line["what"] == "kept"]
        (folder / "sink.jsonl").write_bytes(b"".join(msgspec.json.encode(body) + b"\n" for body in kept))
        for address in (one.store, one.other):
            substrates.drop(address)
        return Result.of(trial, versions=substrates.versions_of(substrate))

    def summarise(self, results: list[Result]) -> WorkloadReport:
        valid = counted(results)
        ours = [one for one in valid if one.system in OURS]
        planted = [one for one in results if one.system in OURS and one.parameters["change"] == "planted"]
        real = [one for one in ours if one.parameters["change"] != "planted"]
        fit = [one for one in real if one.parameters["change"] != "incompatible"]
        wrong, sessions = (sum(one.verdicts[name] for one in real) for name in ("wrong", "sessions"))
        asked, fitting = (sum(one.verdicts[name] for one in fit) for name in ("asks", "sessions"))
        caught = sum(one.verdicts["wrong"] == one.verdicts["sessions"] > 0 for one in counted(planted))
        return WorkloadReport(
            title="Interrupt and resume after days",
            text="Sessions wait for days; then the schema, the program and, for half of them, the database is another.",
            sections=[_overview(valid), *(_section(change, results, valid) for change in CHANGES)],
            controls=[Control("a change that silently gives the wrong result is found", caught, len(planted))],
            hypotheses=[
                _never("No session of Perdure continues wrongly.", wrong, sessions),
                _never("Where the change fits, no session of Perdure asks.", asked, fitting),
            ],
            repeat=[one.trial for one in valid if one.verdicts["wrong"] and one.parameters["change"] != "planted"],
        )


def _never(text: str, count: int, sessions: int) -> Hypothesis:
    return Hypothesis(text, str(Share(count, sessions)), count == 0 and sessions > 0)


TITLES = {
    "same": "The program is the same",
    "compatible": "The program was changed compatibly",
    "incompatible": "The program was changed so that the records do not fit",
    "planted": "Planted: the program reads the answer the wrong way round",
}
TEXT = (
    "Correct: done, with the right result and each effect outside once. Asks: it waits for a person or for other code. "
    "Wrong: anything else. Stayed: in the database that was migrated. Moved: to the other database, by a bundle."
)


def _overview(valid: list[Result]) -> Section:
    """What became of the sessions, by the change of the program."""
    tiles = [[_worst([one for one in valid if one.system == system and one.parameters["change"] == change])
              for change in CHANGES] for system in SYSTEMS]  # fmt: skip
    title = "What became of the sessions, by the change of the program"
    rows: list[list[str | Cell]] = [[system, *cells] for system, cells in zip(SYSTEMS, tiles, strict=True)]
    return Section(
        title=title,
        text="The worst that happened, and to how many of the sessions. Planted is the control: it must be wrong.",
        plot=Matrix(title, list(CHANGES), list(SYSTEMS), tiles),
        table=ReportTable(["system", *CHANGES], rows),
    )


def _worst(mine: list[Result]) -> Cell:
    sessions = sum(one.verdicts["sessions"] for one in mine)
    for word in ("wrong", "asks", "correct"):
        if sessions and (number := sum(one.verdicts[word] for one in mine)):
            return Cell(f"{word} {number}/{sessions}", TONES[word])
    return Cell("not run", Tone.MISSING)


def _section(change: str, results: list[Result], valid: list[Result]) -> Section:
    rows: list[list[str | Cell]] = []
    for system in SYSTEMS:
        mine = [one for one in valid if (one.system, one.parameters["change"]) == (system, change)]
        if not mine:
            why = next((one.reason for one in results if one.system == system), "")
            rows.append([system, Cell(f"not run: {why}", Tone.MISSING), *[""] * 5])
            continue
        rows.append([system, *(_cell(mine, word, place) for place in ("stayed", "moved") for word in TONES)])
    heads = [f"{word}, {place}" for place in ("stayed", "moved") for word in TONES]
    return Section(title=TITLES[change], text=TEXT, table=ReportTable(["system", *heads], rows))


TONES = {"correct": Tone.GOOD, "asks": Tone.COST, "wrong": Tone.BAD}


def _cell(mine: list[Result], word: str, place: str) -> Cell:
    count = sum(one.verdicts[f"{word}_{place}"] for one in mine)
    return Cell(f"{count}", TONES[word] if count else Tone.PLAIN)


WORKLOAD = Interrupt
