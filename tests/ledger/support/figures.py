"""The figures of the ledger's tests: what was swept, how often it was killed or stopped, and what was found."""

from __future__ import annotations

from perdure.testing.sweep.report import HEADS, Report
from tests import figures


def show(what: str, report: Report, *, kind: str = "kills") -> Report:
    """Add a report to the table, and its number of kills or stops to the total of that kind."""
    found = figures.record_sweep("the ledger", what, report, HEADS)
    figures.count(f"{kind} on {'PostgreSQL' if 'PostgreSQL' in what else 'SQLite'}", report.kills)
    figures.count("found in them", found)
    return report
