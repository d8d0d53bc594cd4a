"""The figures of the ledger's tests, collected while they run and printed together at the end."""

from __future__ import annotations

from collections import Counter

from perdure.testing.judge import HEADS
from perdure.testing.sweep import Report

_rows: list[tuple[str, Report]] = []
_kinds: Counter[str] = Counter()


def show(what: str, report: Report, *, kind: str = "kills") -> Report:
    """Put a report into the table, and what it counts to others of its kind."""
    _rows.append((what, report))
    _kinds[f"{kind} on {'PostgreSQL' if 'PostgreSQL' in what else 'SQLite'}"] += report.kills
    return report


def lines() -> list[str]:
    """The table: what was swept, how often it was killed or stopped, and what was found."""
    if not _rows:
        return []
    heads = ["the ledger", "moments", "kills", "unreached", *HEADS, "each"]
    total, kills, seconds = Counter[str](), 0, 0.0
    cells = [heads]
    for what, report in _rows:
        each = f"{1000 * report.seconds / max(1, report.kills):.0f} ms"
        found = [str(report.counts[head]) for head in HEADS]
        cells.append([what, str(report.moments), f"{report.kills:,}", str(report.unreached), *found, each])
        total.update(report.counts)
        kills, seconds = kills + report.kills, seconds + report.seconds
    cells.append(["all", "", f"{kills:,}", "", *(str(total[head]) for head in HEADS), f"{seconds:.0f} s"])
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    table = ["  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in
            zip(row[1:], widths[1:], strict=True))]) for row in cells]  # fmt: skip
    return [*table, ", ".join(f"{count:,} {kind}" for kind, count in sorted(_kinds.items()))]
