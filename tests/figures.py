"""A pytest plugin: the figures that tests collect while they run, printed together at the end.

Tests may run in several processes; what each of them collected travels to the one that prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.ledger.matrix import matrix

Cell = int | str
Tables = dict[str, list[list[Cell]]]

TABLES: Tables = {}  # by title; the first row has the heads
COUNTS: Counter[str] = Counter()
# What a run owes: about four fifths of what its sweeps choose, because a life may end before its moment.
KILLS, POSTGRES, SERVER = 600, 150, 16


def record(title: str, heads: Sequence[str], row: Sequence[object]) -> None:
    """Add a row to the table of this title."""
    cells = [cell if isinstance(cell, int) else str(cell) for cell in row]
    TABLES.setdefault(title, [[title, *heads]]).append(cells)


def count(what: str, number: int) -> None:
    """Add to the number of what was done."""
    COUNTS[what] += number


def join(tables: Tables, counts: dict[str, int]) -> None:
    """Add what another process collected."""
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


class Gathering:
    """Where the tests run in other processes: take what they collected."""

    @pytest.hookimpl
    def pytest_testnodedown(self, node: Any) -> None:
        join(*getattr(node, "workeroutput", {}).get("figures", ({}, {})))


def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.has_plugin("xdist"):
        config.pluginmanager.register(Gathering())


def is_whole(config: pytest.Config) -> bool:
    """Whether everything was to run: nothing was named, chosen or left out, but what `make check` has run."""
    option = config.option
    chosen = option.keyword or option.deselect or option.markexpr != "not soak" or option.collectonly
    left_out = set(option.ignore or ()) - {"tests/tidy"}
    return config.args_source is config.ArgsSource.TESTPATHS and not chosen and not left_out


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Hand over what was collected; a whole run that killed too little has failed, whatever its tests say."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["figures"] = (TABLES, dict(COUNTS))
    elif is_whole(session.config) and not exitstatus and missing(COUNTS):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in lines():
        terminalreporter.write_line(line)
    for what in missing(COUNTS) if is_whole(config) else ():
        terminalreporter.write_line(f"Too little was killed: {what}.", red=True)


def missing(counts: Mapping[str, int]) -> list[str]:
    """What a whole run owes: enough kills, on each database, and of the server itself."""
    server = counts.get("kills of the server on PostgreSQL", 0)
    postgres = counts.get("kills on PostgreSQL", 0)
    kills = counts.get("kills on SQLite", 0) + postgres + server
    owed = (
        (kills, KILLS, "kills"),
        (postgres, POSTGRES, "kills on PostgreSQL"),
        (server, SERVER, "kills of the server"),
    )
    return [f"{made:,} {what}, and at least {least:,} are owed" for made, least, what in owed if made < least]
