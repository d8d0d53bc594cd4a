"""The figures of the ledger's tests: what was swept, how often it was killed or stopped, and what was found."""

from __future__ import annotations

from perdure.testing.sweep.expectation import HEADS
from perdure.testing.sweep.sweep import Report
from tests import figures


def show(what: str, report: Report, *, kind: str = "kills") -> Report:
    """Put a report into the table, and what it counts to others of its kind."""
    each = f"{1000 * report.seconds / max(1, report.kills):.0f} ms"
    found = [report.counts[head] for head in HEADS]
    row = [what, report.moments, report.kills, report.unreached, *found, each]
    figures.record("the ledger", ["moments", "kills", "unreached", *HEADS, "each"], row)
    figures.count(f"{kind} on {'PostgreSQL' if 'PostgreSQL' in what else 'SQLite'}", report.kills)
    figures.count("found in them", sum(found))
    return report
