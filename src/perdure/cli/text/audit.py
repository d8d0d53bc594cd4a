"""How the answer to a question of an audit is printed: as a table, or as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from perdure.cli.text.plain import safe
from perdure.store.audit.question import AuditQuestion, AuditRow, ColumnKind

CUT = frozenset({
    "title", "error", "why", "because", "doubt", "targets", "body", "detail", "subject", "reference", "repository",
    "identity", "target", "key",
})  # fmt: skip
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would run a cell that begins so
LONGEST = 200  # characters of a cell in a table


def headings(question: AuditQuestion) -> list[str]:
    return [
        ("cost" if one.kind is ColumnKind.COST else one.name.replace("_", " ")) + ("~" if one.name in CUT else "")
        for one in question.columns
    ]


def cells(question: AuditQuestion, row: AuditRow) -> list[str]:
    """The cells of a line of the table."""
    return [safe(one.text(value)[:LONGEST]) for one, value in zip(question.columns, row.values, strict=True)]


def csv_line(values: Sequence[str]) -> str:
    """One line of CSV. A text that a spreadsheet would run as a formula begins with an apostrophe."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([f"'{one}" if one.startswith(FORMULA) else one for one in values])
    return line.getvalue()


def csv_cells(question: AuditQuestion, row: AuditRow) -> list[str]:
    """The values of a row for a spreadsheet: times in UTC, costs in millionths of a dollar, the rest whole."""
    return [
        "" if value is None else str(value) if one.kind is ColumnKind.COST else one.text(value)
        for one, value in zip(question.columns, row.values, strict=True)
    ]
