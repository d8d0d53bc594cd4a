"""The report on audit: agreement with the truth, and what an answer costs at each length of the history."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.evaluation.audit.facts import QUESTIONS
from perdure.evaluation.measurement import BYTES, MILLISECONDS, TIMES, Unit, ratios, show_spread, spread
from perdure.evaluation.report.model import (
    Cell,
    Control,
    Hypothesis,
    LinePlot,
    ReportTable,
    Section,
    Series,
    Tone,
    WorkloadReport,
)
from perdure.evaluation.statistics import Share
from perdure.evaluation.workload import Result, counted

SQLITE, POSTGRES = "perdure/sqlite/questions/synced", "perdure/postgres/questions/synced"
FILES = "perdure/files/questions/synced"
OURS = (SQLITE, POSTGRES, FILES)
BLOB, RESULTS_ONLY = "blob/json/events/synced", "blob/json/result-only/synced"
PLANTED = "perdure/sqlite/drops-a-row/synced"
MEASURED = (*OURS, BLOB)
SYSTEMS = (*MEASURED, RESULTS_ONLY, PLANTED)
AXES = {MILLISECONDS.name: "milliseconds", BYTES.name: "bytes"}
FLAT = 2.0  # the most that the answers may grow from the shortest to the longest history
FIGURES: tuple[tuple[str, str, Unit], ...] = (
    ("seconds", "Time to answer every question once", MILLISECONDS),
    ("bytes", "Bytes touched to answer every question once", BYTES),
)
ROWS = Unit("")
RIGHT = "Every answer of Perdure agrees with the truth."


def summarise(results: list[Result]) -> WorkloadReport:
    """The report on all trials."""
    valid = [one for one in counted(results) if one.measures]
    lengths = sorted({int(length) for one in results for length in one.parameters["lengths"]})
    ours = [one for one in valid if one.system in OURS]
    asked = sum(one.verdicts["questions"] for one in ours)
    bad = sum(one.verdicts["wrong"] + one.verdicts["not_answered"] for one in ours)
    return WorkloadReport(
        title="Audit: questions about a long history",
        text="A generator writes the history and keeps the truth about a time of constant size at its end. Every "
        "question is asked about that time, of a store that was just opened.",
        sections=[
            _agreement(results, valid),
            *(_growth(name, title, unit, lengths, results, valid) for name, title, unit in FIGURES),
            *(_questions(valid, length) for length in lengths[-1:]),
        ],
        controls=_controls(results, lengths),
        hypotheses=[
            Hypothesis(RIGHT, f"{Share(bad, asked)} answers do not", not bad and asked > 0),
            _flat("seconds", "The time of its answers does not grow with older history.", valid, lengths),
            _flat("bytes", "The bytes that they touch do not grow with older history.", valid, lengths),
        ],
        repeat=[one.trial for one in valid if one.verdicts["wrong"] and one.system != PLANTED],
    )  # fmt: skip


def total(one: Result, name: str, length: int) -> float | None:
    """A figure of all questions together, at one length."""
    found = [one.measures.get(f"{question}.{name}@{length}") for question in QUESTIONS]
    known = [value for value in found if value is not None]
    return sum(known) if known else None


def _totals(valid: Sequence[Result], system: str, name: str, length: int) -> list[float]:
    found = [total(one, name, length) for one in valid if one.system == system]
    return [value for value in found if value is not None]


def _agreement(results: list[Result], valid: list[Result]) -> Section:
    rows: list[list[str | Cell]] = []
    for system in SYSTEMS:
        mine = [one for one in valid if one.system == system]
        if not mine:
            why = next((one.reason for one in results if one.system == system), "")
            rows.append([system, Cell(f"not run: {why}", Tone.MISSING), *[""] * 4])
            continue
        sums = {
            name: sum(one.verdicts[name] for one in mine) for name in ("questions", "right", "wrong", "not_answered")
        }
        rows.append([
            system, f"{len(mine)}", f"{sums['questions']}", Cell(f"{sums['right']}", Tone.GOOD),
            Cell(str(Share(sums["wrong"], sums["questions"])), Tone.BAD if sums["wrong"] else Tone.PLAIN),
            Cell(f"{sums['not_answered']}", Tone.COST if sums["not_answered"] else Tone.PLAIN),
        ])  # fmt: skip
    columns = ["system", "trials", "answers", "as the truth", "wrong", "cannot say"]
    table = ReportTable(columns, rows)
    return Section(title="Agreement with the truth", text=AGREEMENT, table=table)


AGREEMENT = (
    "An answer agrees if it has each fact of the truth once and no other. The blob has every event of its session, and "
    "no place for exemptions and accesses, which belong to no session. blob/result-only keeps messages and results. "
    "drops-a-row is planted: each of its answers lacks a row, and must be found wrong."
)


def _growth(
    name: str, title: str, unit: Unit, lengths: list[int], results: list[Result], valid: list[Result]
) -> Section:
    series, rows = [], list[list[str | Cell]]()
    for system in MEASURED:
        found = {length: _totals(valid, system, name, length) for length in lengths}
        spreads = {length: spread(values) for length, values in found.items() if values}
        if not spreads:
            why = next((one.reason for one in results if one.system == system), "")
            rows.append([system, Cell(f"not run: {why}", Tone.MISSING), *[""] * (len(lengths) - 1)])
            continue
        points = [(float(length), middle * unit.scale) for length, (_, middle, _) in spreads.items()]
        series.append(Series(system, points))
        stopped = Cell(f"stopped at {max(spreads):,}", Tone.MISSING)
        rows.append([system, *(show_spread(unit, spreads[one]) if one in spreads else stopped for one in lengths)])
    plot = LinePlot(title=title, x="events in the history", y=AXES[unit.name], series=series, log_x=True, log_y=True)
    return Section(
        title=title,
        text=GROWTH,
        plot=plot if series else None,
        table=ReportTable(["system", *(f"{one:,} events" for one in lengths)], rows),
    )  # fmt: skip


GROWTH = (
    "Medians over the rounds, with the smallest and the largest. Both axes are logarithmic. The blob leaves out the "
    "questions that it cannot answer. A store of text files (perdure/files) is read whole into memory when it is "
    "opened, so that each answer touches the whole history. It is for short sessions, is not measured beyond 100,000 "
    "events, and takes no part in the claim on costs."
)


def _questions(valid: list[Result], length: int) -> Section:
    rows: list[list[str | Cell]] = []
    measured = [one for one in MEASURED if _totals(valid, one, "seconds", length)]
    for question in QUESTIONS:
        row: list[str | Cell] = [question]
        for system in measured:
            own = [
                one.measures for one in valid if one.system == system and f"{question}.seconds@{length}" in one.measures
            ]
            if not own:
                row += [Cell("cannot say", Tone.COST), "", ""]
                continue
            times = show_spread(MILLISECONDS, spread([one[f"{question}.seconds@{length}"] for one in own]))
            row += [times, *(ROWS.show(own[0][f"{question}.{name}@{length}"]) for name in ("rows", "bytes"))]
        rows.append(row)
    heads = [f"{'/'.join(one.split('/')[:2])}: {what}" for one in measured for what in ("time", "rows", "bytes")]
    against = ratios(_rounds(valid, length), SQLITE)
    notes = [f"{system}: {show_spread(TIMES, found)} of {SQLITE} in one round." for system, found in against.items()]
    return Section(
        title=f"Every question at {length:,} events",
        text=QUESTION,
        table=ReportTable(["question", *heads], rows),
        notes=notes,
    )


QUESTION = (
    "Rows are rows that the plan read (PostgreSQL), steps of the virtual machine (SQLite), or events that were decoded "
    "(blob), or lines of the logs (files). Bytes are pages of the database, or bytes of documents."
)


def _rounds(valid: list[Result], length: int) -> list[dict[str, float]]:
    rounds: dict[int, dict[str, float]] = {}
    for one in valid:
        if one.system in MEASURED and (found := total(one, "seconds", length)) is not None:
            rounds.setdefault(one.parameters["round"], {})[one.system] = found
    return list(rounds.values())


def _grown(valid: Sequence[Result], system: str, name: str, lengths: Sequence[int]) -> list[float]:
    pairs = [(total(one, name, lengths[0]), total(one, name, lengths[-1])) for one in valid if one.system == system]
    return [last / first for first, last in pairs if first and last]


def _flat(name: str, text: str, valid: list[Result], lengths: list[int]) -> Hypothesis:
    """Refuted by a store that grew beyond the limit in every round."""
    figures, holds = [], True
    for system in (SQLITE, POSTGRES):
        if grown := _grown(valid, system, name, lengths):
            holds = holds and min(grown) <= FLAT
            figures.append(f"{system}: {show_spread(TIMES, spread(grown))} at {lengths[-1]:,} events")
    return Hypothesis(text, "; ".join(figures) or "not measured", holds and bool(figures))


def _controls(results: list[Result], lengths: list[int]) -> list[Control]:
    """A trial of a control that is void or was not run has not been caught."""
    planted, blobs = ([one for one in results if one.system == system] for system in (PLANTED, BLOB))
    caught = sum(one.verdicts["wrong"] == one.verdicts["questions"] > 0 for one in counted(planted))
    grown, least = _grown(counted(blobs), BLOB, "bytes", lengths), lengths[-1] / lengths[0] / 2
    return [
        Control("an answer that lacks a row is found wrong", caught, len(planted)),
        Control("the bytes that a blob reads grow with its history", sum(one > least for one in grown), len(blobs)),
    ]
