"""The group `store`: what one durable move costs on each database. Budgets: `Store` and `Effects` in budgets.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import store_postgres, store_sqlite
from benchmarks.measure import Table


def tables(folder: Path, rounds: int) -> Iterator[Table]:
    yield Table("store on SQLite", store_sqlite.lines(folder, rounds))
    yield Table("store on PostgreSQL", store_postgres.lines(rounds))
