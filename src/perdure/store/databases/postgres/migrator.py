"""Transactions and migrations on PostgreSQL: under an advisory lock, and without blocking readers for long.

A migration waits at most `LOCK_TIMEOUT` for a table lock, because later statements queue behind it; then it rolls back
and tries again. Backups are left to the operator: `pg_dump`, or the server's own archive.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import errors

from perdure import faults
from perdure.errors import ConfigError, Conflict
from perdure.store import migrate, rights
from perdure.store.databases.postgres import roles
from perdure.store.databases.postgres.errors import is_answer
from perdure.store.move import Row, StoreTransaction
from perdure.store.moves import meta
from perdure.store.statements import load

LOCK_TIMEOUT = "500ms"
ATTEMPTS = 40


_PARAMETER = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|--[^\n]*|/\*.*?\*/|\?""", re.DOTALL)


def _placed(found: re.Match[str]) -> str:
    """Replace a question mark by a parameter, unless it is in a text, a name or a comment."""
    return "%s" if found[0] == "?" else found[0]


class PostgresTransaction(StoreTransaction):
    """Named statements on a connection: for reads, migrations and inspection."""

    def __init__(self, db: psycopg.Connection[Row], now: int, move_id: str, restore_epoch: int) -> None:
        super().__init__(now, move_id, restore_epoch)
        self._db = self._connection = db
        self._sql = load("postgres")
        self.result: Any = None
        self.synchronous = False  # whether a standby has it too, known when it is committed
        self.waits: Callable[[], None] = lambda: None  # called before every statement that waits for its answer

    def run(self, name: str, /, **values: Any) -> int:
        self.wrote = True
        self.waits()
        return self._db.execute(self._sql[name], values).rowcount

    def send(self, name: str, /, **values: Any) -> None:
        self.wrote = True
        self._db.execute(self._sql[name], values)

    def exclude_dispatches(self, patience: int) -> None:
        self.send("policy.limit_wait", limit=str(patience))
        self.send("policy.exclude_dispatches")

    def execute(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        """Run a user's own statement in a savepoint: the user may catch its error, and the transaction stays usable."""
        self.wrote = True
        self.waits()
        try:
            with self._db.transaction():
                cursor = self._db.execute(_PARAMETER.sub(_placed, sql.replace("%", "%%")), tuple(parameters))
                return cursor.fetchall() if cursor.description else []
        except psycopg.IntegrityError as error:
            raise Conflict(f"The database refused this: {error}.") from error
        except (psycopg.ProgrammingError, psycopg.DataError) as error:
            raise ConfigError(f"The statement cannot be run: {error}.") from error
        except psycopg.Error as error:
            if not is_answer(error):  # its caller may catch the error, and must not continue on this connection
                self._connection.close()
            raise

    def one(self, name: str, /, **values: Any) -> Row | None:
        self.waits()
        return self._db.execute(self._sql[name], values).fetchone()

    def all(self, name: str, /, **values: Any) -> list[Row]:
        self.waits()
        return self._db.execute(self._sql[name], values).fetchall()


class PostgresMigrator(migrate.Migrator):
    """Migrations on one connection."""

    dialect = "postgres"

    def __init__(self, db: psycopg.Connection[Row]) -> None:
        self._db = db

    def _tx(self) -> PostgresTransaction:
        return PostgresTransaction(self._db, 0, "migrate", 0)

    def version(self) -> tuple[int, int]:
        tx = self._tx()
        if tx.one("meta.exists") is None:
            return (0, 0)
        return (int(meta.get(tx, "schema_version") or 0), int(meta.get(tx, "compatible_from") or 0))

    def lock(self) -> None:
        """Wait for other migrators without a time limit: a migration may take longer than any other statement."""
        while True:
            try:
                self._tx().one("meta.lock_migrations")
            except (errors.LockNotAvailable, errors.QueryCanceled):
                continue
            return

    def unlock(self) -> None:
        self._tx().one("meta.unlock_migrations")

    def back_up(self, version: int) -> None:
        """Left to the operator: `pg_dump`, or the server's archive."""

    def apply(self, scripts: Iterable[str], properties: Mapping[str, str]) -> None:
        texts = list(scripts)
        for attempt in range(ATTEMPTS):
            try:
                with self._db.transaction():
                    self._db.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
                    self._tx().one("meta.no_limits")
                    for text in texts:
                        self._db.execute(text)
                    for key, value in properties.items():
                        self._tx().send("meta.put", key=key, value=value)
                    faults.point("migrate.after")
                return
            except errors.LockNotAvailable:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(0.1)

    def give_rights(self, prefix: str | None = None) -> None:
        """Give each role its rights on the tables and views that exist; with a prefix, make the roles first or anew."""
        tx = self._tx()
        if (chosen := prefix or meta.get(tx, roles.RECORDED)) is None:
            return
        names = ",".join([*rights.TABLES, *migrate.view_names()])
        there = {name for (name,) in tx.all("doctor.relations", names=names)}
        tables = [one for one in rights.TABLES if one in there]
        views = [one for one in migrate.view_names() if one in there]
        self.apply([roles.role_text(chosen, tables, views)], {roles.RECORDED: chosen})

    def correct_rights(self) -> bool:
        prefix = meta.get(self._tx(), roles.RECORDED)
        if prefix is None or not roles.differences(self._tx(), prefix):
            return False
        self.give_rights()
        return True

    def batch(self, statement: str) -> int:
        with self._db.transaction():
            self._tx().one("meta.no_limits")
            return self._db.execute(statement).rowcount
