"""The summary of the crash workload: what was done how often, what a kill hides, and which controls were caught."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from perdure.evaluation.crash.claims import controls, hypotheses
from perdure.evaluation.crash.comparison import comparison_sections, expectations
from perdure.evaluation.crash.plan import ABILITIES, rank
from perdure.evaluation.report.model import (
    Cell,
    Matrix,
    ReportTable,
    Section,
    Tone,
    WorkloadReport,
)
from perdure.evaluation.statistics import Share
from perdure.evaluation.workload import Result, counted

# Verdicts from worst to best: the word in a cell, and how it is marked. Without any of them a trial is correct.
WORST = (
    ("doubled", Tone.BAD),
    ("lost", Tone.BAD),
    ("stuck", Tone.BAD),
    ("blind", Tone.BAD),
    ("needless", Tone.BAD),
    ("asked", Tone.COST),
)
RED = [name for name, tone in WORST if tone is Tone.BAD]
COUNTS = ("wanted", "happened", "doubled", "lost", "asked", "needless", "blind", "stuck")
CLASSES = ("known", "flagged", "silent")


# What was added to a peer, beside what its documentation recommends.
BY_HAND = {
    "documented": "",
    "default": ", default",
    "key": " + key",
    "lookup": " + lookup",
    "once": " + mark",
}
SINK_COLUMNS = {"before": "before commit", "after": "after commit", "replied": "after reply", "late": "lands later"}
SERVER_COLUMNS = {"act": "server, during an act", "idle": "server, between effects"}
FAULT_COLUMNS = {"error": "500 after commit", "cut": "cut after commit", "late_cut": "cut, lands later"}


def is_point(result: Result) -> bool:
    """Whether a trial killed at one of our own fault points: these make a table of their own."""
    return any(str(result.parameters.get(name, "")).startswith("point:") for name in ("kill", "again"))


def column(result: Result) -> str:
    """Where a trial was killed, or which fault the sink had: the columns of the crash matrix."""
    kill, again, fault = (str(result.parameters.get(name, "none")) for name in ("kill", "again", "fault"))
    if again != "none":
        return "and in recovery"
    match kill.split(":"):
        case ["sink", when]:
            return {
                "before": "before commit",
                "after": "after commit",
                "replied": "after reply",
                "late": "lands later",
            }[when]
        case ["syscall", *_]:
            return "at a system call"
        case ["server", when]:
            return SERVER_COLUMNS[when]
        case ["point", name]:
            return name
    return FAULT_COLUMNS.get(fault, "between effects")


WORKER_KILLS = (
    *("between effects", "at a system call", "before commit", "after commit", "after reply", "lands later"),
    "and in recovery",
)


def cell(results: list[Result]) -> Cell:
    """The worst verdict in these trials, and in how many of them."""
    usable = counted(results)
    if not usable:
        reasons = {one.outcome for one in results}
        return Cell("not run" if "not run" in reasons else "void" if reasons else "n/a", Tone.MISSING)
    for name, tone in WORST:
        if hits := sum(one.verdicts[name] > 0 for one in usable):
            return Cell(f"{name} {hits}/{len(usable)}", tone)
    return Cell(f"correct {len(usable)}/{len(usable)}", Tone.GOOD)


def short_name(system: str) -> str:
    """`perdure/sqlite/default/full` is `perdure/sqlite`."""
    name, substrate, configuration, _ = system.split("/")
    if name == "perdure":
        return f"{name}/{substrate}{', agent' if configuration == 'agent' else ''}"
    if name == "blob":
        return f"{name}/{configuration}"
    return f"{name}/{substrate}{BY_HAND[configuration]}"


def matrix(
    title: str, results: list[Result], columns: Iterable[str], rows: Iterable[str], row: Callable[[Result], str],
    *, every_row: bool = False,
) -> Section:  # fmt: skip
    """A crash matrix as tiles, with the same cells in a table. Rows without a trial are left out, or all "n/a"."""
    columns, found = list(columns), defaultdict[tuple[str, str], list[Result]](list)
    for one in results:
        found[row(one), column(one)].append(one)
    names = [name for name in rows if every_row or any(found[name, one] for one in columns)]
    cells = [[cell(found[name, one]) for one in columns] for name in names]
    return Section(
        title=title,
        plot=Matrix(title, columns, names, cells) if names else None,
        table=ReportTable(["system", *columns], [[name, *line] for name, line in zip(names, cells, strict=True)]),
    )


def summarise(results: list[Result]) -> WorkloadReport:
    """The report of the crash workload."""
    own = sorted((one for one in results if not one.parameters.get("planted")), key=lambda one: rank(one.system))
    outside = [one for one in own if not is_point(one)]
    workers = [one for one in outside if not str(one.parameters.get("kill", "")).startswith("server:")]
    servers = [one for one in outside if one not in workers]
    names = list(dict.fromkeys(one.system for one in own))
    short = [short_name(name) for name in names]
    sections = [
        *comparison_sections(own),
        expectations(own),
        matrix("Worker killed", workers, WORKER_KILLS, short, lambda one: short_name(one.system)),
        matrix("Fault of the service", workers, FAULT_COLUMNS.values(), short, lambda one: short_name(one.system)),
        matrix(
            "Database server killed",
            servers,
            SERVER_COLUMNS.values(),
            short,
            lambda one: short_name(one.system),
            every_row=bool(servers),
        ),
        _abilities(outside, names),
        *_figure(own, names),
        _counts("Counts: worker killed, or a fault of the service", workers, names),
        _counts("Counts: database server killed", servers, names),
        _checkpoints(own),
        _own_points(own),
        _void(results),
    ]
    return WorkloadReport(
        title="Crash: kills and faults around effects",
        text=TEXT,
        sections=[one for one in sections if one.table is not None and one.table.rows],
        controls=controls(results),
        hypotheses=hypotheses(own),
        repeat=_red(own),
    )


TEXT = (
    "Each trial performs three effects at a sink, an independent process with its own synced log. A process is killed "
    "from outside: by the sink, or by a tracer at a system call. Another process continues, until the session ends. A "
    "truthful person answers what is asked. A kill ends a process; it is no power cut. A tile shows the worst that "
    "happened there and in how many of its trials: correct (pale), asked (striped: a cost, no error), and doubled, "
    "lost, blind, needless or stuck (dark, crossed). n/a: this system has no such trial."
)


def _abilities(results: list[Result], names: list[str]) -> Section:
    rows: list[list[str | Cell]] = []
    for name in names:
        own = [[one for one in results if one.system == name and one.parameters["ability"] == can] for can in ABILITIES]
        rows.append([short_name(name), *map(cell, own)])
    title = "By what the sink can do"
    tiles = [[one for one in row if isinstance(one, Cell)] for row in rows]
    return Section(
        title=title,
        text="Nothing: Perdure's rule is escalate. Key: idempotent. Lookup: probe. Undo: compensate.",
        plot=Matrix(title, list(ABILITIES), [str(row[0]) for row in rows], tiles) if rows else None,
        table=ReportTable(["system", *ABILITIES], rows),
    )


def _figure(results: list[Result], names: list[str]) -> Iterable[Section]:
    """Proposition 1: what the durable state says at each kill."""
    tiles, rows = [], []
    for name in names:
        own = [one for one in counted(results) if one.system == name and "class" in one.findings]
        count = Counter(one.findings["class"] for one in own)
        states = Counter(kind for kind, _ in {(one.findings["class"], _state(one)) for one in own})
        tones = (Tone.GOOD, Tone.COST, Tone.BAD)
        tiles.append([
            Cell(f"{count[kind]}/{len(own)}", tone if count[kind] else Tone.PLAIN)
            for kind, tone in zip(CLASSES, tones, strict=True)
        ])  # fmt: skip
        rows.append([
            short_name(name), str(len(own)),
            *(f"{count[kind]} in {states[kind]} states" for kind in CLASSES), str(Share(count["silent"], len(own))),
        ])  # fmt: skip
    title = "Proposition 1: can the durable state tell what happened?"
    names = [short_name(name) for name in names]
    yield Section(
        title=title,
        text="Trials of one system that were killed with equal durable states form a class. "
        "Flagged: the state says that the outcome is unknown. "
        "Known: what it says is true in every world that the sink shows for the class. "
        "Silent: it is not, for example when an effect that happened looks like one that was not begun. "
        "An intent that is synced before the act is enough to have no silent class: "
        "blob/intent is a ledger inside a blob.",
        plot=Matrix(title, list(CLASSES), names, tiles) if names else None,
        table=ReportTable(["system", "kills", *CLASSES, "silent"], [[*row] for row in rows]),
    )
    yield Section(title="Every class of durable states", table=_classes(results))


def _state(result: Result) -> tuple[str, str]:
    return result.parameters["ability"], result.findings["state"]


def _classes(results: list[Result]) -> ReportTable:
    found = Counter(
        (one.system, *_state(one), one.findings["said"], one.findings["worlds"], one.findings["class"])
        for one in counted(results)
        if "class" in one.findings
    )
    rows: list[list[str | Cell]] = [
        [
            short_name(name), can, state or "empty", said, worlds, str(number),
            Cell(kind, Tone.BAD if kind == "silent" else Tone.PLAIN),
        ]
        for (name, can, state, said, worlds, kind), number in sorted(found.items())
    ]  # fmt: skip
    columns = ["system", "sink", "durable state", "it says of effect 2", "worlds at the sink", "kills", "class"]
    return ReportTable(columns, rows)


def _counts(title: str, results: list[Result], names: list[str]) -> Section:
    rows: list[list[str | Cell]] = []
    for name in names:
        own = [one for one in counted(results) if one.system == name]
        if own:
            sums = {what: sum(one.verdicts[what] for one in own) for what in COUNTS}
            red = Share(sum(any(one.verdicts[what] for what in RED) for one in own), len(own))
            cells = [Cell(str(sums[what]), Tone.BAD if what in RED and sums[what] else Tone.PLAIN) for what in COUNTS]
            rows.append([short_name(name), str(len(own)), *cells, str(red)])
    return Section(title=title, table=ReportTable(["system", "trials", *COUNTS, "trials with an error"], rows))


def _checkpoints(results: list[Result]) -> Section:
    """Agents, killed around the writing of their checkpoint."""
    found = defaultdict[tuple[str, str], list[Result]](list)
    for one in counted(results):
        kill, again = one.parameters.get("kill", "none"), one.parameters.get("again", "none")
        if "checkpoint" in one.findings:
            found[short_name(one.system), kill if again == "none" else f"{kill}, then {again}"].append(one)
    rows: list[list[str | Cell]] = [
        [name, where, str(Share(sum(one.findings["checkpoint"] == "yes" for one in own), len(own))), cell(own)]
        for (name, where), own in found.items()
    ]
    return Section(
        title="An agent, killed around its checkpoint",
        text="A model asks for the effects, after a history so long that the agent writes a checkpoint when effect 2 "
        "has its outcome. On SQLite and files the fourth sync records the result for the model, the fifth one is that "
        "of the checkpoint, the sixth one records the next reply; a client of PostgreSQL sends several times for a "
        "commit. Where a checkpoint was there after the kill, the next process began with it.",
        table=ReportTable(["system", "killed at", "a checkpoint was there", "verdict"], rows),
    )


def _own_points(results: list[Result]) -> Section:
    """Kills inside our own code, which no other system has."""
    found = defaultdict[tuple[str, str], list[Result]](list)
    for one in filter(is_point, results):
        kill, again = one.parameters["kill"], one.parameters.get("again", "none")
        where = kill if again == "none" else f"{kill}, then {again}"
        found[short_name(one.system), where.replace("point:", "")].append(one)
    rows: list[list[str | Cell]] = [[name, where, cell(own)] for (name, where), own in sorted(found.items())]
    return Section(
        title="Perdure's own fault points",
        text="Kills at named places in Perdure's code. They are not part of a comparison.",
        table=ReportTable(["system", "killed at", "verdict"], rows),
    )


def _void(results: list[Result]) -> Section:
    found = Counter((short_name(one.system), one.outcome, one.reason) for one in results if one.outcome != "counted")
    rows: list[list[str | Cell]] = [[*key, str(number)] for key, number in sorted(found.items())]
    return Section(title="Trials that do not count", table=ReportTable(["system", "outcome", "reason", "trials"], rows))


def _red(results: list[Result]) -> list[str]:
    """The trials with an error."""
    return [one.trial for one in counted(results) if any(one.verdicts[what] for what in RED)]
