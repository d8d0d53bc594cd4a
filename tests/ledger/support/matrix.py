"""The matrix of the sweeps: every rule and every combination of effects, with every fault, on both databases.

| | kill | 500, cut | lands late | stopped | lease lost | server killed |
|---|---|---|---|---|---|---|
| pure, joint | both | nothing is sent outside: there is no reply to lose | the same | both | both | PostgreSQL |
| the other rules, and combinations of effects | both | both | both | both | both | PostgreSQL |

SQLite has no server: the database dies with the process, which is the first column. Commits with an unknown outcome
are swept in `test_recovery_kills`. A stop lasts until the lease has ended; a lost lease is taken by force from a worker
that was stopped.
"""

from __future__ import annotations

from collections.abc import Sequence

SILENT = ("pure", "joint")
POSTING = ("idempotent", "probe", "compensate", "escalate", "gated", "parallel", "parent", "timer", "forked")
ROWS = (*SILENT, *POSTING)
COLUMNS = {
    "killed": "kill",
    "error after the commit": "500",
    "cut after the commit": "cut",
    "lands late": "late",
    "stopped": "stopped",
    "lease lost": "lease lost",
    "server killed": "server killed",
}
OUTSIDE = ("500", "cut", "late")
DATABASES = ("SQLite", "PostgreSQL")
Cell = int | str


def label(name: str, column: str, database: str) -> str:
    """The name of a sweep in the table of all sweeps."""
    return f"{name}, {column}" + (", PostgreSQL" if database == "PostgreSQL" else "")


def applies(name: str, column: str, database: str) -> bool:
    """Whether a fault can happen to a program there."""
    if COLUMNS[column] == "server killed" and database == "SQLite":
        return False
    return name in POSTING or COLUMNS[column] not in OUTSIDE


def cells(database: str, *, without: str = "") -> list[tuple[str, str]]:
    """The programs and faults that are swept on a database."""
    return [
        (name, column) for column in COLUMNS if column != without for name in ROWS if applies(name, column, database)
    ]


def matrix(rows: Sequence[Sequence[Cell]]) -> list[list[Cell]]:
    """From the table of all sweeps (its kills are the third cell), how often each fault happened to each program.

    Empty if none of these sweeps ran.
    """
    made = {str(row[0]): int(row[2]) for row in rows[1:]}
    if not made.keys() & {label(name, column, at) for name in ROWS for column in COLUMNS for at in DATABASES}:
        return []
    table: list[list[Cell]] = [["rules and faults", *COLUMNS.values()]]
    for database in DATABASES:
        for name in ROWS:
            cells = [
                made.get(label(name, column, database), 0) if applies(name, column, database) else "-"
                for column in COLUMNS
            ]
            table.append([f"{name}, {database}", *cells])
    return table


def gaps(rows: Sequence[Sequence[Cell]]) -> list[str]:
    """The cells that could have been swept and were not."""
    heads, *lines = matrix(rows) or [[]]
    return [f"{line[0]}: {head}" for line in lines for head, cell in zip(heads[1:], line[1:], strict=True) if cell == 0]
