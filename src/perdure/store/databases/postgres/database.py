"""PostgreSQL through psycopg: many workers, many machines.

Threads with a connection each, one set for writing and one for reading. How a move is sent, and how a lost connection
is handled, is in `connection.py`.
"""

from __future__ import annotations

from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from perdure.clock import Clock, ServerClock
from perdure.errors import SchemaMismatch, StoreUnavailable
from perdure.store import migrate
from perdure.store.databases.postgres.address import URGENT, direct_address, readers
from perdure.store.databases.postgres.connection import Connection
from perdure.store.databases.postgres.connection_settings import (
    CONNECT_TIME,
    LAST_CONNECT_TIME,
    PooledConnection,
    connect,
    connect_direct,
)
from perdure.store.databases.postgres.errors import translate
from perdure.store.databases.postgres.history import REGISTRATION, History
from perdure.store.databases.postgres.migrator import PostgresMigrator, PostgresTransaction
from perdure.store.databases.postgres.notifications import NotificationBus, Notifications
from perdure.store.databases.postgres.stall import STALL_LIMIT, LastPatience, StallWatch
from perdure.store.move import Row
from perdure.store.moves import meta
from perdure.store.writer.threads import Threads
from perdure.store.writer.ticket import Ticket
from perdure.store.writer.wakeup import Wakeups

__all__ = ["PostgreSQL", "connect", "connect_direct", "prepare", "translate"]


class PostgreSQL:
    """A PostgreSQL database: threads with a connection each for writing, and others for reading."""

    dialect = "postgres"
    keeps_other_tables = True
    folder: Path | None = None

    def __init__(
        self,
        url: str,
        *,
        connections: int = 8,
        clock: Clock | None = None,
        patience: float = 30.0,
        stall_limit: float = STALL_LIMIT,
    ) -> None:
        self.url = url
        self.server_clock = ServerClock()
        self.clock: Clock = clock or self.server_clock
        self.history = History(self, REGISTRATION + 1 + connections + URGENT)
        self.patience = patience
        self.last_patience = LastPatience()
        self._is_away = False  # the server did not answer since the patience was limited
        self.stall_watch = StallWatch(stall_limit)
        store = self._first_look()
        direct = direct_address(url)
        self.notifications = Notifications(
            store, self.connect, None if direct is None else lambda: connect(direct, within=self.connect_time)
        )
        self.wakeups = Wakeups(self.notifications)
        self.messages = NotificationBus(self.notifications, self.wakeups)
        self._places = count(REGISTRATION + 1)
        self._writers = Threads("perdure-writer", connections, self._connection, serve_write)
        self._urgent = Threads("perdure-urgent", URGENT, self._connection, serve_write)
        self._readers = Threads("perdure-reader", readers(connections), lambda: Connection(self), serve_read)

    def _first_look(self) -> str:
        """Create the tables if there are none, and identify the server; returns the id of the store."""
        with connect(self.url) as db:
            try:
                self.schema_version = prepare(db, self.url)
                self.history.check_timeline(db)
                tx = PostgresTransaction(db, 0, "open", 0)
                self.identity = f"db:{meta.session_user(tx)}"
                return meta.get(tx, "store_id") or ""
            except psycopg.Error as error:
                raise translate(error) from error

    @property
    def restore_epoch(self) -> int:
        return self.history.restore_epoch

    def _connection(self) -> Connection:
        return Connection(self, next(self._places))

    @property
    def connect_time(self) -> float:
        """How many seconds the server may take to accept a connection."""
        return LAST_CONNECT_TIME if self.last_patience.is_limited else CONNECT_TIME

    def connect(self) -> psycopg.Connection[Row]:
        """Connect. In a process that ends, a server that did not answer is not asked again and again."""
        if self._is_away and self.last_patience.is_over():
            raise StoreUnavailable("PostgreSQL cannot be reached, and this process ends.")
        try:
            return connect(self.url, within=self.connect_time)
        except StoreUnavailable:
            self._is_away = self.last_patience.is_limited
            raise

    def limit_patience(self, seconds: float) -> None:
        self.last_patience.limit(seconds)
        self.stall_watch.limit(seconds)

    def submit_write(self, ticket: Ticket[Any]) -> None:
        (self._urgent if ticket.move.urgent else self._writers).submit(ticket)

    def submit_read(self, ticket: Ticket[Any]) -> None:
        self._readers.submit(ticket)

    def close(self) -> None:
        self._readers.close()
        self._writers.close()
        self._urgent.close()
        self.wakeups.close()
        self.history.leave(self.connect)
        self.stall_watch.close()


def serve_write(connection: Connection, ticket: Ticket[Any]) -> None:
    try:
        ticket.result = connection.write(ticket.move)
    except BaseException as error:
        ticket.error = translate(error)


def serve_read(connection: Connection, ticket: Ticket[Any]) -> None:
    try:
        ticket.result = connection.read(ticket.move)
    except BaseException as error:
        ticket.error = translate(error)


def prepare(db: psycopg.Connection[Row], url: str) -> int:
    """Create the tables in an empty database; refuse one whose schema does not fit this code."""
    migrator, migrations = PostgresMigrator(db), migrate.load("postgres")
    version, compatible_from = migrator.version()
    if version < len(migrations) and (version == 0 or _is_unused(PostgresTransaction(db, 0, "open", 0))):
        # new, or its creation was interrupted: it is not in use yet
        with connect_direct(url) if isinstance(db, PooledConnection) else nullcontext(db) as direct:
            migrate.migrate(PostgresMigrator(direct), migrations)
        version, compatible_from = migrator.version()
    migrate.check(version, compatible_from, len(migrations))
    if version < migrate.needed(migrations):
        raise SchemaMismatch(
            f"The store has schema {version}; this version of Perdure needs {migrate.needed(migrations)}.",
            hint="Run `perdure migrate` once; workers may keep running.",
        )
    return version


def _is_unused(tx: PostgresTransaction) -> bool:
    """Whether a store has no session and no worker."""
    return not tx.all("session.count") and not tx.all("doctor.workers", limit=1)
