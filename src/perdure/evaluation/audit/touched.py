"""What a database touches to answer a question: rows or steps, and bytes of pages.

The statements of the question are recorded while it is answered, and run once more by themselves: on PostgreSQL with
`explain (analyze, buffers)`, on SQLite on a new connection that counts its pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw
import msgspec

from perdure.store.statements import load

PAGE = 8192  # of PostgreSQL
Statement = tuple[str, dict[str, Any]]


class Touched(msgspec.Struct, frozen=True):
    """`rows`: rows that the plan read (PostgreSQL), steps of the virtual machine (SQLite), decoded events (blob)."""

    rows: int
    bytes: int


class StatementRecorder:
    """A transaction that notes which statements are read through it."""

    def __init__(self, tx: Any) -> None:
        self._tx = tx
        self.statements: list[Statement] = []

    def all(self, name: str, **values: Any) -> Any:
        self.statements.append((name, values))
        return self._tx.all(name, **values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


def touched(address: str, statements: list[Statement]) -> Touched:
    """What these statements touch."""
    measure = _on_postgres if address.startswith("postgresql:") else _on_sqlite
    return measure(address, statements)


def _on_sqlite(address: str, statements: list[Statement]) -> Touched:
    db = apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY)
    steps: list[int] = []
    db.trace_v2(apsw.SQLITE_TRACE_PROFILE, lambda done: steps.append(done["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]))
    try:
        for name, values in statements:
            list(db.execute(load("sqlite")[name], values))
        pages = db.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]
        size = int(db.pragma("page_size"))
    finally:
        db.close()
    return Touched(rows=sum(steps), bytes=pages * size)


def _on_postgres(address: str, statements: list[Statement]) -> Touched:
    import psycopg

    rows = pages = 0
    with psycopg.connect(address, autocommit=True) as server:
        for name, values in statements:
            query: Any = f"explain (analyze, buffers, format json) {load('postgres')[name]}"
            found = server.execute(query, values).fetchone()
            assert found is not None
            plan = found[0][0]["Plan"]
            pages += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            rows += sum(_rows_read(node) for node in _nodes(plan) if "Scan" in node["Node Type"])
    return Touched(rows=rows, bytes=pages * PAGE)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from _nodes(inner)


def _rows_read(node: dict[str, Any]) -> int:
    """The rows that a scan visited, those that it filtered out too."""
    return int((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])
