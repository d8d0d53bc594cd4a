"""A pytest plugin: the figures that tests collect while they run, printed together at the end.

Tests may run in several processes; what each of them collected travels to the one that prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

Cell = int | str
Tables = dict[str, list[list[Cell]]]

TABLES: Tables = {}  # by title; the first row has the heads
COUNTS: Counter[str] = Counter()


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


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["figures"] = (TABLES, dict(COUNTS))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in lines():
        terminalreporter.write_line(line)
