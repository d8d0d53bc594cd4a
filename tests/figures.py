"""A pytest plugin: the figures that tests collect while they run, printed together at the end.

Tests may run in several processes; each sends its figures to the process that prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from perdure.testing.sweep.report import Report
from tests.ledger.support.matrix import matrix

Cell = int | str
Tables = dict[str, list[list[Cell]]]

TABLES: Tables = {}  # by title; the first row has the heads
COUNTS: Counter[str] = Counter()
# The least that a whole run must do: four fifths of what its sweeps choose. A process may end before its kill point.
KILLS, POSTGRES, SERVER = 600, 150, 16


def record(title: str, heads: Sequence[str], row: Sequence[object]) -> None:
    """Add a row to the table with this title."""
    cells = [cell if isinstance(cell, int) else str(cell) for cell in row]
    TABLES.setdefault(title, [[title, *heads]]).append(cells)


def record_sweep(title: str, what: str, report: Report, heads: Sequence[str]) -> int:
    """Add the report of a sweep to the table with this title; returns how much was found wrong."""
    each = f"{1000 * report.seconds / max(1, report.kills):.0f} ms"
    found = [report.counts[head] for head in heads]
    row = [what, report.moments, report.kills, report.unreached, *found, each]
    record(title, ["moments", "kills", "unreached", *heads, "each"], row)
    return sum(found)


def count(what: str, number: int) -> None:
    """Add to the total of something that was done."""
    COUNTS[what] += number


def join(tables: Tables, counts: dict[str, int]) -> None:
    """Add the figures of another process."""
    for title, (heads, *rows) in tables.items():
        TABLES.setdefault(title, [heads]).extend(rows)
    COUNTS.update(counts)


def lines() -> list[str]:
    """Every table and every count, ready to be printed."""
    found: list[str] = []
    if swept := matrix(TABLES.get("the ledger", [])):
        TABLES["rules and faults"] = swept
    for rows in TABLES.values():
        cells = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
        widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
        found.append("")
        for first, *rest in cells:
            numbers = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
            found.append("  ".join([first.ljust(widths[0]), *numbers]))
    return [*found, "", ", ".join(f"{number:,} {what}" for what, number in sorted(COUNTS.items()))] if found else []


class FigureCollector:
    """Collects the figures of other processes in which tests run."""

    @pytest.hookimpl
    def pytest_testnodedown(self, node: Any) -> None:
        join(*getattr(node, "workeroutput", {}).get("figures", ({}, {})))


def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.has_plugin("xdist"):
        config.pluginmanager.register(FigureCollector())


def is_whole(config: pytest.Config) -> bool:
    """Whether all tests were selected: no path, no filter, and nothing ignored except what `make check` runs."""
    option = config.option
    chosen = option.keyword or option.deselect or option.markexpr != "not soak" or option.collectonly
    left_out = set(option.ignore or ()) - {"tests/tidy"}
    return config.args_source is config.ArgsSource.TESTPATHS and not chosen and not left_out


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Send the figures; a whole run with too few kills has failed, even if its tests passed."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["figures"] = (TABLES, dict(COUNTS))
    elif is_whole(session.config) and not exitstatus and missing(COUNTS):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in lines():
        terminalreporter.write_line(line)
    for what in missing(COUNTS) if is_whole(config) else ():
        terminalreporter.write_line(f"Too few kills: {what}.", red=True)


def missing(counts: Mapping[str, int]) -> list[str]:
    """What a whole run lacks: kills in all, on PostgreSQL, and of the server itself."""
    server = counts.get("kills of the server on PostgreSQL", 0)
    postgres = counts.get("kills on PostgreSQL", 0)
    kills = counts.get("kills on SQLite", 0) + postgres + server
    required = (
        (kills, KILLS, "kills"),
        (postgres, POSTGRES, "kills on PostgreSQL"),
        (server, SERVER, "kills of the server"),
    )
    return [f"{made:,} {what}, and at least {least:,} are required" for made, least, what in required if made < least]
