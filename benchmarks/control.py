"""The control plane: claims with many waiting sessions, workers side by side, wake-ups, takeover, parked sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import control_claims, control_workers
from benchmarks.measure import Table
from perdure.testing.postgres import PostgresServer


def tables(folder: Path, rounds: int) -> Iterator[Table]:
    with PostgresServer() as server:
        yield Table("Claims on SQLite", control_claims.lines(str(folder / "claims.db"), rounds))
        yield Table("Claims on PostgreSQL", control_claims.lines(server.create_database(), rounds))
        yield Table("Workers on SQLite", control_workers.lines(folder / "workers", None, rounds))
        yield Table("Workers on PostgreSQL", control_workers.lines(folder / "pg", server, rounds))
