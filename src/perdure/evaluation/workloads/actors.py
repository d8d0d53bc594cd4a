"""The workload `actors`: five logical actors on one family of sessions under contention.

Claim. A worker, a scheduler, an approver, a canceller and an auditor, each in a process of its own, change and read the
same sessions at the same time, and no confirmed update is lost, doubled or reordered.

Method. A family of sessions with a history of their own is started. The scheduler sends messages to all of them; two
workers act on each message, on every third one after an approval; the approver approves; the canceller pauses and
resumes sessions under way and cancels one; the auditor reads whole logs. All begin together. Each records when it
called, when it got its answer, and what that was. A round is one trial of each system, in a changing order; ratios are
taken within a round, over five rounds. On `files`, which only one process can open, the actors are tasks of one
process.

Oracle. `verifiers/actors.py`, which does not import Perdure: each session is a list, each append a unique value, the
number of the entry its witness. One sequential log must explain every answer and every read; each confirmed message is
taken once and acted on once.

Refuted by one lost, doubled, misplaced or reordered update, one stale or torn read, or one session that does not end,
on any store of Perdure. Void, if the blob without a lock passes: in each of its trials two processes are made to read
the same version before either writes, so that an update is certainly lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perdure.errors import ConfigError
from perdure.evaluation import substrates
from perdure.evaluation.actors.conductor import conduct
from perdure.evaluation.actors.family import ActorTrial
from perdure.evaluation.measurement import MILLISECONDS, PER_SECOND, TIMES, Spread, ratios, show_spread, spread
from perdure.evaluation.report.model import (
    Cell,
    Control,
    Hypothesis,
    RangePlot,
    RangeSeries,
    ReportTable,
    Section,
    Tone,
    WorkloadReport,
)
from perdure.evaluation.statistics import Share
from perdure.evaluation.workload import Form, Result, Trial, counted

ROUNDS = 5
CONTROL = "blob/json/no-lock/synced"
BASE = "perdure/sqlite/default/synced"
SYSTEMS = (
    BASE,
    "perdure/postgres/default/synced",
    "perdure/files/one-process/synced",
    "blob/json/lock/synced",
    CONTROL,
)
ACTORS = ("worker", "scheduler", "approver", "canceller", "auditor")
PERCENTILES = ("p50", "p95", "p99")
WRONG = (
    *("lost", "doubled", "misplaced", "reordered", "stale", "torn", "not_refused", "unfinished"),
    *("messages_lost", "messages_doubled", "acts_lost", "acts_doubled", "acts_invented"),
)
SIZES = {
    Form.SHORT: ({"sessions": 4, "messages": 6, "pauses": 8, "history": 200},),
    Form.FULL: (
        {"sessions": 8, "messages": 60, "pauses": 100, "history": 0},
        {"sessions": 8, "messages": 60, "pauses": 100, "history": 5000},
    ),
}


class Actors:
    """Five actors on one family of sessions."""

    name = "actors"
    lanes = 1

    def trials(self, form: Form, rounds: int = 0) -> list[Trial]:
        found = []
        for size in SIZES[form]:
            for number in range(rounds or ROUNDS):
                order = SYSTEMS[number % len(SYSTEMS) :] + SYSTEMS[: number % len(SYSTEMS)]
                for system in order:
                    substrate, configuration = system.split("/")[1:3]
                    id = f"h{size['history']}-r{number}-{system.split('/')[0]}-{substrate}-{configuration}"
                    found.append(Trial(id=id, system=system, parameters=size | {"round": number}))
        return found

    def run(self, trial: Trial, folder: Path) -> Result:
        system, substrate, configuration, _ = trial.system.split("/")
        numbers = {name: trial.parameters[name] for name in ("sessions", "messages", "pauses", "history")}
        try:
            address = str(folder) if system == "blob" else substrates.store_address(substrate, folder)
        except ConfigError as error:
            return Result.not_run(trial, str(error))
        seed, lock = trial.seed, trial.system != CONTROL
        one = ActorTrial(target=address, folder=str(folder), seed=seed, lock=lock, **numbers)
        measures = conduct(one, together=configuration == "one-process")
        substrates.drop(address)
        return Result.of(trial, measures=measures, versions=substrates.versions_of(substrate))

    def summarise(self, results: list[Result]) -> WorkloadReport:
        valid = counted(results)
        ours = [one for one in valid if one.system.startswith("perdure/")]
        control = [one for one in results if one.system == CONTROL]
        caught = sum(one.verdicts["lost_updates"] > 0 for one in counted(control))
        wrong = sum(_wrong(one) for one in ours)
        bad = Share(sum(_wrong(one) > 0 for one in ours), len(ours))
        appends = sum(one.verdicts["appends"] for one in ours)
        return WorkloadReport(
            title="Actors under contention",
            text="A worker, a scheduler, an approver, a canceller and an auditor use the same sessions at one time.",
            sections=[*_sections(valid, results)],
            controls=[Control("a blob without a lock loses updates", caught, len(control))],
            hypotheses=[
                Hypothesis(
                    "No confirmed update is lost, doubled or reordered on a store of Perdure.",
                    f"{wrong} wrong of {appends:,} confirmed appends; trials with one: {bad}",
                    wrong == 0 and bool(ours),
                )
            ],
            repeat=[one.trial for one in valid if _wrong(one) or one.verdicts["lost_updates"]],
        )


def _wrong(one: Result) -> int:
    return sum(one.verdicts[name] for name in WRONG)


def _sections(valid: list[Result], results: list[Result]) -> list[Section]:
    sections = []
    for history in sorted({one.parameters["history"] for one in results}):
        mine = [one for one in valid if one.parameters["history"] == history]
        title = f"Consistency and throughput, {history:,} earlier messages in each session"
        sections.append(Section(title=title, text=CONSISTENCY, table=_consistency(mine, results), notes=NOTES))
        sections.append(_latency(history, mine))
    return sections


CONSISTENCY = (
    "Lost updates include messages that were never acted on. Refused: calls that were answered with an error, such as "
    "a message to a session that was cancelled. Appends a second count the confirmed appends of all actors together."
)
NOTES = [
    "On files, the actors are tasks of one process, because only one process can open such a store.",
    "The blob without a lock is the control: it must lose updates in every trial.",
]


def _consistency(mine: list[Result], results: list[Result]) -> ReportTable:
    rounds = _rounds(mine)
    against = ratios(rounds, BASE)
    rows: list[list[str | Cell]] = []
    for system in SYSTEMS:
        own = [one for one in mine if one.system == system]
        if not own:
            why = next((one.reason for one in results if one.system == system), "")
            rows.append([system, Cell(f"not run: {why}", Tone.MISSING), *[""] * 6])
            continue
        lost = sum(one.verdicts["lost_updates"] for one in own)
        other = sum(_wrong(one) for one in own) - lost
        rate = show_spread(PER_SECOND, spread([one.measures["appends_per_second"] for one in own]))
        ratio = "1" if system == BASE else show_spread(TIMES, against[system]) if system in against else ""
        refused = sum(one.verdicts["refused"] for one in own)
        bad = Share(sum(_wrong(one) > 0 for one in own), len(own))
        rows.append([system, str(len(own)), _cell(lost), _cell(other), str(bad), f"{refused}", rate, ratio])
    return ReportTable(
        [
            "system",
            "trials",
            "lost updates",
            "other violations",
            "trials with one",
            "refused",
            "appends a second",
            f"ratio to {BASE}",
        ],
        rows,
    )


def _rounds(mine: Sequence[Result]) -> list[dict[str, float]]:
    found: dict[int, dict[str, float]] = {}
    for one in mine:
        found.setdefault(one.parameters["round"], {})[one.system] = one.measures["appends_per_second"]
    return list(found.values())


def _cell(count: int) -> Cell:
    return Cell(f"{count:,}", Tone.BAD if count else Tone.GOOD)


def _latency(history: int, mine: list[Result]) -> Section:
    """The latency of every actor: the medians over the rounds of its percentiles."""
    series: list[RangeSeries] = []
    rows: list[list[str | Cell]] = []
    for system in SYSTEMS:
        own = [one for one in mine if one.system == system and system != CONTROL]
        found = {actor: [_spread_of(own, actor, name) for name in PERCENTILES] for actor in ACTORS}
        ranges = [[values[1] * 1e3 for values in found[actor] if values] for actor in ACTORS]
        if any(ranges):
            series.append(RangeSeries(system, [(one[0], one[1], one[2]) if one else None for one in ranges]))
        rows += [
            [f"{system}: {actor}", *(show_spread(MILLISECONDS, one) for one in spreads if one)]
            for actor, spreads in found.items()
            if all(spreads)
        ]
    title = f"Latency of the actors, {history:,} earlier messages"
    text = "The mark is the 95th percentile of the calls of an actor; the line is from the 50th to the 99th."
    heads = (f"{name}, median of the rounds (min–max)" for name in PERCENTILES)
    return Section(
        title=title,
        text=text,
        plot=RangePlot(title, list(ACTORS), "milliseconds", series) if series else None,
        table=ReportTable(["system: actor", *heads], rows),
    )


def _spread_of(own: list[Result], actor: str, name: str) -> Spread | None:
    """The spread over the rounds of one percentile of an actor."""
    values = [one.measures[f"{actor}.{name}"] for one in own if f"{actor}.{name}" in one.measures]
    return spread(values) if values else None


WORKLOAD = Actors
