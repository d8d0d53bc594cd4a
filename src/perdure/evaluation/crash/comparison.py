"""The comparison of systems: only places of a kill that every row of a column has, by what the sink can do.

A row of Perdure or of a blob uses what the sink offers; a peer does so by what was added by hand. Only kills by the
sink are compared: a system call or a fault of the service is not the same place in two systems.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.evaluation.crash.plan import AGENTS, rank
from perdure.evaluation.report.model import Cell, ReportTable, Section, Tone
from perdure.evaluation.statistics import Share
from perdure.evaluation.workload import Result, counted

OUTCOMES = (("doubled", Tone.BAD), ("lost", Tone.BAD), ("stuck", Tone.BAD), ("asked", Tone.COST))
FULL = ("right", "doubled", "lost", "stuck", "blind", "asked", "needless")
OURS = ("perdure", "blob")


class Column(msgspec.Struct, frozen=True):
    """What the sink can do, and the configuration of peers that uses it."""

    title: str
    ability: str
    configuration: str


COLUMNS = (
    Column("the service can do nothing", "nothing", "documented"),
    Column("the same, at most once by hand", "nothing", "once"),
    Column("it honours keys, with a key by hand", "key", "key"),
    Column("it can be asked, with a lookup by hand", "lookup", "lookup"),
)


def place(result: Result) -> tuple[str, str]:
    """Where a trial was killed."""
    return str(result.parameters.get("kill", "none")), str(result.parameters.get("again", "none"))


def is_compared(result: Result) -> bool:
    """Whether a trial was killed by the sink alone, and is no planted mistake."""
    kill, again = place(result)
    by_sink = kill.startswith("sink:") and (again == "none" or again.startswith("sink:"))
    is_agent = result.system in AGENTS  # killed at fewer places than the program on the same store
    return result.workload == "crash" and by_sink and not is_agent and not result.parameters.get("planted")


def row_of(result: Result) -> str:
    """The row: a system with its substrate; the strengths of the blob are systems of their own."""
    name, substrate, configuration, _ = result.system.split("/")
    if name == "blob":
        return f"{name}/{configuration}"
    weaker = ", default" if configuration == "default" and name not in OURS else ""
    return f"{name}/{substrate}{weaker}"


def in_column(result: Result, column: Column) -> bool:
    """Whether a trial belongs to a column. Perdure and the blob do nothing by hand, so they have no `once`."""
    name, _, configuration, _ = result.system.split("/")
    if result.parameters.get("ability") != column.ability:
        return False
    if name in OURS:
        return column.configuration != "once"
    return configuration == column.configuration or (configuration, column.configuration) == ("default", "documented")


def shared(results: Sequence[Result], column: Column) -> dict[str, list[Result]]:
    """The trials of each row at the places that all rows of the column have."""
    rows: dict[str, list[Result]] = {}
    for one in sorted(results, key=lambda one: rank(one.system)):
        if is_compared(one) and in_column(one, column):
            rows.setdefault(row_of(one), []).append(one)
    places = [{place(one) for one in own} for own in rows.values() if counted(own)]
    common = set.intersection(*places) if places else set()
    return {row: [one for one in own if place(one) in common or one.outcome == "not run"] for row, own in rows.items()}


def happened(outcome: str, result: Result) -> bool:
    """Whether a trial had an outcome. It is right if all is there once, whether or not a person was asked."""
    if outcome == "right":
        return not any(result.verdicts[name] for name in ("doubled", "lost", "stuck"))
    return result.verdicts[outcome] > 0


def share(outcome: str, own: list[Result]) -> Share:
    """In how many of the trials that count it happened."""
    usable = counted(own)
    return Share(sum(happened(outcome, one) for one in usable), len(usable))


def cell(own: list[Result]) -> Cell:
    """What went wrong, and what was asked; otherwise in how many trials all was right."""
    if not counted(own):
        return Cell("not run" if own else "n/a", Tone.MISSING)
    found = [(name, tone, share(name, own)) for name, tone in OUTCOMES]
    shown = [(f"{name} {one}", tone) for name, tone, one in found if one.k]
    if not shown:
        return Cell(f"right {share('right', own)}", Tone.GOOD)
    return Cell(", ".join(text for text, _ in shown), shown[0][1])


def comparison_table(results: Sequence[Result]) -> ReportTable:
    """One line for each system, one column for each ability of the sink: the table of README.md."""
    columns = [shared(results, column) for column in COLUMNS]
    names = list(dict.fromkeys(name for column in columns for name in column))
    rows: list[list[str | Cell]] = [[name, *(cell(column.get(name, [])) for column in columns)] for name in names]
    return ReportTable(["system", *(column.title for column in COLUMNS)], rows)


def comparison_sections(results: Sequence[Result]) -> list[Section]:
    """Every outcome of every system, one table for each column of the short comparison."""
    found = []
    for column in COLUMNS:
        rows: list[list[str | Cell]] = []
        compared = shared(results, column)
        for name, own in compared.items():
            if counted(own):
                rows.append([name, *(_share(outcome, own) for outcome in FULL)])
        title, text = f"Compared at equal places: {column.title}", f"Killed by the sink {places_of(compared)}."
        found.append(Section(title=title, text=text, table=ReportTable(["system", *FULL], rows)))
    return found


EXPECTED = (
    ("as documented, at a service that can do nothing: doubled", COLUMNS[0], "sink:after", "doubled", True),
    ("with a mark, at a service that can do nothing: doubled", COLUMNS[1], "", "doubled", False),
    ("with a mark, at a service that can do nothing: a person is asked", COLUMNS[1], "", "asked", True),
    ("with a key, at a service that honours keys: doubled", COLUMNS[2], "", "doubled", False),
    ("with a lookup, killed after the commit: doubled", COLUMNS[3], "sink:after", "doubled", False),
    ("with a lookup, where the commit happens later: doubled", COLUMNS[3], "sink:late", "doubled", False),
)


def expectations(results: Sequence[Result]) -> Section:
    """What the protocol expects of peers, and in how many of their trials it was so."""
    rows: list[list[str | Cell]] = []
    for text, column, kill, outcome, wanted in EXPECTED:
        peers = [one for one in results if is_compared(one) and one.system.split("/")[0] not in OURS]
        own = [one for one in peers if in_column(one, column) and kill in ("", place(one)[0])]
        if counted(own):
            found = share(outcome, own)
            as_expected = "yes" if bool(found.k) == wanted else "no"
            rows.append([text, "some or all" if wanted else "none", str(found), as_expected])
    table = ReportTable(["peers", "expected", "found", "as expected"], rows)
    return Section(title="What was expected of peers", text="Not a claim about Perdure.", table=table)


WORDS = {
    "sink:before": "before its commit",
    "sink:after": "after its commit",
    "sink:replied": "after its reply",
    "sink:late": "before a commit that happens later",
}


def places_of(compared: dict[str, list[Result]]) -> str:
    """The places at which all rows of a column were killed, in words."""
    found = {place(one) for own in compared.values() for one in counted(own)}
    words = [WORDS[kill] for kill in WORDS if (kill, "none") in found]
    if any(again != "none" for _, again in found):
        words.append("and once more while it recovers")
    return ", ".join(words) or "nowhere"


def _share(outcome: str, own: list[Result]) -> Cell:
    found = share(outcome, own)
    bad = outcome in ("doubled", "lost", "stuck", "blind", "needless") and found.k
    return Cell(str(found), Tone.BAD if bad else Tone.PLAIN)
