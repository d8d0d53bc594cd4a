"""The report on growth: one plot and one table for each figure, and what they say about the claim."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.evaluation.measurement import BYTES, MILLISECONDS, TIMES, Spread, Unit, ratios, show_spread, spread
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
from perdure.evaluation.workload import Result, counted

CONTROL = "blob/json/whole/synced"
SYSTEMS = (
    "perdure/sqlite/compaction/synced",
    "perdure/postgres/compaction/synced",
    "perdure/files/compaction/synced",
    "perdure/sqlite/whole/synced",
    "perdure/postgres/whole/synced",
    "perdure/files/whole/synced",
    "blob/json/compaction/synced",
    CONTROL,
    "blob/json/result-only/synced",
    "blob/json/intent+key/synced",
)
PEERS = ("langgraph/sqlite/sync/synced", "openai_agents/sqlite/session/synced")
ALL = (*SYSTEMS, *PEERS)
AXES = {MILLISECONDS.name: "milliseconds", BYTES.name: "bytes"}
FLAT = 1.5  # the most that a figure may grow from the shortest to the longest history
ABOUT = {
    "step": "Expected flat: a turn depends on the window that the model is shown, and not on the history.",
    "resume": "Expected flat: a process starts from the last checkpoint and the events after it.",
    "resume_without_checkpoint": "A checkpoint is only a cache: without it a resume reads more, and gives the same.",
    "fork": "Expected flat: a fork copies no history. A blob is copied whole.",
    "written": "Expected flat: rows are added. A blob is written whole several times in a turn.",
    "rest": "Expected to grow: Perdure keeps the whole history. A blob with compaction has lost it.",
    "checkpoint": "Expected flat with compaction; with the whole history in each request it grows with it.",
}
FIGURES: tuple[tuple[str, str, Unit], ...] = (
    ("step", "Time of a step", MILLISECONDS),
    ("resume", "Cold resume to the next answer", MILLISECONDS),
    ("resume_without_checkpoint", "Cold resume without a checkpoint", MILLISECONDS),
    ("fork", "Fork to the first answer of the branch", MILLISECONDS),
    ("written", "Bytes written for a step", BYTES),
    ("rest", "Bytes on disk at rest", BYTES),
    ("checkpoint", "Size of the checkpoint, or of the blob", BYTES),
)
TEXT = (
    "A step is one turn: a message, two model calls, one tool, an answer. Medians over the rounds, with the smallest "
    "and the largest. Both axes are logarithmic. Peers keep a conversation of the same lines; n/a: they are not asked."
)


def summarise(results: list[Result]) -> WorkloadReport:
    """The report on all trials."""
    valid = [one for one in counted(results) if one.measures]
    lengths = sorted({int(length) for one in results for length in one.parameters["lengths"]})
    wrong = [one for one in valid if one.verdicts["lines_lost"] or one.verdicts["steps_unrecorded"]]
    return WorkloadReport(
        title="Growth of the history",
        text="Histories are built in bulk; each figure is measured on a copy, in a fresh process.",
        sections=[
            *(_section(name, title, unit, lengths, results, valid) for name, title, unit in FIGURES),
            *(_comparison(valid, length) for length in lengths[-1:]),
        ],
        controls=[_control(results, lengths)],
        hypotheses=[
            Hypothesis(
                "Each timed step is recorded, and no session lost lines of its history.",
                f"{len(wrong)} of {len(valid)} trials are wrong",
                not wrong,
            ),
            _flat("written", "The bytes of a step of Perdure do not grow with the history.", valid, lengths, SYSTEMS),
            _flat("step", "With compaction, the time of a step of Perdure does not grow.", valid, lengths, SYSTEMS[:3]),
        ],
        repeat=[one.trial for one in valid if one in wrong or _grew(one, lengths)],
    )


def _of(valid: Sequence[Result], system: str, name: str, length: int) -> list[float]:
    return [
        one.measures[f"{name}@{length}"] for one in valid if one.system == system and f"{name}@{length}" in one.measures
    ]


def growth_of(valid: Sequence[Result], system: str, name: str, lengths: Sequence[int]) -> list[float]:
    """How much a figure grows from the shortest to the longest history that was measured, in each round."""
    first, last = f"{name}@{lengths[0]}", f"{name}@{lengths[-1]}"
    rounds = [one.measures for one in valid if one.system == system]
    return [one[last] / one[first] for one in rounds if one.get(first) and last in one]


def _control(results: list[Result], lengths: list[int]) -> Control:
    """In every round the bytes of a step of the whole blob must grow with its history. A void round shows nothing."""
    mine = [one for one in results if one.system == CONTROL]
    caught = 0
    for one in counted(mine):
        measured = [length for length in lengths if f"written@{length}" in one.measures]
        if len(measured) > 1:
            grown = one.measures[f"written@{measured[-1]}"] / one.measures[f"written@{measured[0]}"]
            caught += grown > measured[-1] / measured[0] / 5
    return Control("the bytes of a step of the whole blob grow with its history", caught, len(mine))


def _grew(one: Result, lengths: Sequence[int]) -> bool:
    """Whether the bytes or, with compaction, the time of a step of Perdure grew beyond the limit in this trial."""
    if not one.system.startswith("perdure/"):
        return False
    names = ["written", *(["step"] if one.system in SYSTEMS[:3] else [])]
    reached = {name: [length for length in lengths if f"{name}@{length}" in one.measures] for name in names}
    return any(grown > FLAT for name in names for grown in growth_of([one], one.system, name, reached[name] or [0]))


def _flat(name: str, text: str, valid: list[Result], lengths: list[int], systems: Sequence[str]) -> Hypothesis:
    """Refuted by a system that grew beyond the limit, at the longest history that it reached.

    Bytes are counted, so that one round is enough; times depend on the machine, so that it must be every round.
    """
    judged = max if name == "written" else min
    figures, holds = [], True
    for system in systems:
        if not system.startswith("perdure/") or not any(one.system == system for one in valid):
            continue
        reached = [length for length in lengths if _of(valid, system, name, length)]
        grown = growth_of(valid, system, name, reached)
        if not grown:
            continue
        holds = holds and judged(grown) <= FLAT
        figures.append(f"{system}: {show_spread(TIMES, spread(grown))} at {reached[-1]:,}")
    return Hypothesis(text, "; ".join(figures) or "not measured", holds and bool(figures))


def _section(
    name: str, title: str, unit: Unit, lengths: list[int], results: list[Result], valid: list[Result]
) -> Section:
    series: list[Series] = []
    rows: list[list[str | Cell]] = []
    for system in ALL:
        mine = [one for one in results if one.system == system]
        if not mine:
            continue
        found = {length: _of(valid, system, name, length) for length in lengths}
        spreads = {length: spread(values) for length, values in found.items() if values}
        points = [(float(length), middle * unit.scale) for length, (_, middle, _) in spreads.items() if middle]
        if points:
            series.append(Series(system, points))
        rows.append([system, *(_cell(unit, spreads, length, mine) for length in lengths)])
    plot = LinePlot(title=title, x="messages", y=AXES[unit.name], series=series, log_x=True, log_y=True)
    return Section(
        title=title,
        text=f"{ABOUT[name]} {TEXT}",
        plot=plot,
        table=ReportTable(["system", *(f"{one:,}" for one in lengths)], rows),
    )


def _comparison(valid: list[Result], length: int) -> Section:
    """Each system divided by Perdure on SQLite with compaction, within each round."""
    rows: list[list[str | Cell]] = []
    for system in ALL[1:]:
        row = [_ratio(valid, system, name, length) for name, _, _ in FIGURES]
        if any(row):
            rows.append([system, *row])
    return Section(
        title=f"Compared with {SYSTEMS[0]} at {length:,} messages",
        text="Each figure is divided by that of the same round: the median, the smallest and the largest ratio.",
        table=ReportTable(["system", *(title.lower() for _, title, _ in FIGURES)], rows),
    )


def _ratio(valid: list[Result], system: str, name: str, length: int) -> str:
    rounds: dict[int, dict[str, float]] = {}
    for one in valid:
        if f"{name}@{length}" in one.measures:
            rounds.setdefault(one.parameters["round"], {})[one.system] = one.measures[f"{name}@{length}"]
    found = ratios(list(rounds.values()), SYSTEMS[0]).get(system)
    return "" if found is None else show_spread(TIMES, found)


def _cell(unit: Unit, spreads: dict[int, Spread], length: int, mine: list[Result]) -> str | Cell:
    if length in spreads:
        return show_spread(unit, spreads[length])
    if not spreads:
        return Cell("n/a" if counted(mine) else f"not run: {mine[0].reason}", Tone.MISSING)
    return Cell(f"stopped at {max(spreads):,}", Tone.MISSING)
