"""The figures of the crash tests, collected while they run and printed together at the end."""

from __future__ import annotations

from collections.abc import Sequence

_tables: dict[str, tuple[Sequence[str], list[Sequence[object]]]] = {}


def record(title: str, heads: Sequence[str], row: Sequence[object]) -> None:
    """Add a row to the table of this title."""
    _tables.setdefault(title, (heads, []))[1].append(row)


def lines() -> list[str]:
    """Every table, ready to be printed."""
    found: list[str] = []
    for title, (heads, rows) in _tables.items():
        cells = [
            [title, *heads],
            *([f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows),
        ]
        widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
        found.append("")
        for row in cells:
            first, *rest = (cell.ljust(width) if not at else cell.rjust(width)
                            for at, (cell, width) in enumerate(zip(row, widths, strict=True)))  # fmt: skip
            found.append("  ".join([first, *rest]))
    return found
