"""The transactions of a move: one statement that commits by itself, or many on the connection of a pipeline."""

from __future__ import annotations

from typing import Any

import psycopg

from perdure.store import migrate
from perdure.store.databases.postgres.migrator import PostgresTransaction
from perdure.store.databases.postgres.pipeline import StatementPipeline, is_synchronous, rows_of
from perdure.store.hot_move import GuardedWrite
from perdure.store.move import Row

Query = tuple[str, dict[str, Any]]


class HotTransaction(PostgresTransaction):
    """A transaction that is one statement."""

    def __init__(self, pipeline: StatementPipeline, now: int, move_id: str, restore_epoch: int) -> None:
        super().__init__(pipeline.db, now, move_id, restore_epoch)
        self._pipeline = pipeline

    def run(self, name: str, /, **values: Any) -> int:
        self.wrote = True
        self.waits()
        return self._pipeline.run_alone(name, values).command_tuples or 0

    def write_guarded(self, hot: GuardedWrite[Any]) -> bool:
        self.wrote = True
        self.waits()
        values = hot.values | {"known": migrate.known(), "server": self._pipeline.server}
        answer = self._pipeline.run_alone(hot.statement, values)
        self.synchronous = is_synchronous(answer)
        return bool(answer.command_tuples)


class PipelinedTransaction(PostgresTransaction):
    """A transaction that is open on the connection of a pipeline."""

    def __init__(self, pipeline: StatementPipeline, now: int, move_id: str, restore_epoch: int) -> None:
        self.pipeline = pipeline
        self._ahead: list[Query] = []  # what is asked with the next query
        self._known: list[tuple[Query, list[Row]]] = []  # what was asked ahead, with its answers
        super().__init__(pipeline.db, now, move_id, restore_epoch)

    @property
    def _db(self) -> psycopg.Connection[Row]:
        """The connection itself, for a user's own statement; waits until the pipeline is empty."""
        self.pipeline.settle()
        return self._idle

    @_db.setter
    def _db(self, db: psycopg.Connection[Row]) -> None:
        self._idle = db

    def run(self, name: str, /, **values: Any) -> int:
        self.wrote = True
        self.waits()
        return self.pipeline.ask(name, values).command_tuples or 0

    def send(self, name: str, /, **values: Any) -> None:
        self.wrote = True
        self.pipeline.send(name, values)

    def one(self, name: str, /, **values: Any) -> Row | None:
        rows = self.all(name, **values)
        return rows[0] if rows else None

    def all(self, name: str, /, **values: Any) -> list[Row]:
        if self._known:
            query = (name, values)
            for place, (asked, rows) in enumerate(self._known):
                if asked == query:
                    del self._known[place]
                    return rows
        return self.all_of(name, **values)[0]

    def ask_ahead(self, name: str, **values: Any) -> None:
        self._ahead.append((name, values))

    def all_of(self, *names: str, **values: Any) -> list[list[Row]]:
        self.waits()
        asked = [(name, values) for name in names]
        ahead, self._ahead = [one for one in self._ahead if one not in asked], []
        found = [rows_of(answer) for answer in self.pipeline.ask_all([*ahead, *asked])]
        self._known += zip(ahead, found, strict=False)
        return found[len(ahead) :]
