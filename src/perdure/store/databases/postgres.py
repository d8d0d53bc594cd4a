"""PostgreSQL through psycopg: many workers, many machines.

A move is one transaction that begins by locking its session's row. The hot moves are one guarded statement each: the
holder knows the head of the log, so the guard and the writes need no round trip in between; when the guard does not
hold, nothing was written and the move runs the long way.

What a lost connection means depends on when it was lost. Before COMMIT was sent: nothing happened, run again. After:
nobody knows. Then we reconnect to the primary, lock the session's row (which waits for the lost transaction, should it
still be committing), and search for the move's id. A plain read would lie.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo, errors

from perdure import faults
from perdure.clock import Clock, ServerClock
from perdure.errors import (
    CommitUnknown,
    ConfigError,
    Conflict,
    IllegalMove,
    PerdureError,
    SchemaMismatch,
    StoreFull,
    StoreUnavailable,
)
from perdure.store import meta, migrate
from perdure.store.databases.postgres_migrator import PostgresMigrator, PostgresTransaction
from perdure.store.move import MISSED, Move, Row
from perdure.store.statements import load
from perdure.store.threads import Threads
from perdure.store.ticket import Ticket
from perdure.store.wakeup import Notifier, Wakeups, listen

TIME_LIMITS = "-c statement_timeout=30s -c lock_timeout=20s -c idle_in_transaction_session_timeout=60s"
REFRESH_CLOCK = 60_000_000


class Lost(Exception):
    """The connection was lost; `after_commit` says whether a COMMIT was on its way."""

    def __init__(self, *, after_commit: bool, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.after_commit = after_commit


class PostgreSQL:
    """A PostgreSQL database: threads with a connection each for writing, and others for reading."""

    dialect = "postgres"
    folder: Path | None = None

    def __init__(self, url: str, *, connections: int = 8, clock: Clock | None = None, patience: float = 30.0) -> None:
        self.url = url
        self.server_clock = ServerClock()
        self.clock: Clock = clock or self.server_clock
        self.patience = patience
        with connect(url) as db:
            self.schema_version, self.restore_epoch = prepare(db)
        self._notifier = Notifier(lambda: connect(url))
        self.wakeups = Wakeups(listen(lambda: connect(url)))
        self._writers = Threads("perdure-writer", connections, self._connection, serve_write)
        self._readers = Threads("perdure-reader", max(2, connections // 2), self._connection, serve_read)

    def _connection(self) -> Connection:
        return Connection(self)

    def submit_write(self, ticket: Ticket[Any]) -> None:
        self._writers.submit(ticket)

    def submit_read(self, ticket: Ticket[Any]) -> None:
        self._readers.submit(ticket)

    def committed(self, uids: set[str]) -> None:
        self.wakeups.bump(uids)
        self._notifier.notify(uids)

    def close(self) -> None:
        self.wakeups.close()
        self._readers.close()
        self._writers.close()
        self._notifier.close()


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


class Connection:
    """One connection, opened when it is first needed and again when it was lost."""

    def __init__(self, server: PostgreSQL) -> None:
        self._server = server
        self._db: psycopg.Connection[Row] | None = None
        self._was_connected = False

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def db(self) -> psycopg.Connection[Row]:
        if self._db is None or self._db.closed:
            self._db = connect(self._server.url)
            self._was_connected = True
            self._measure_clock()
        elif self._server.server_clock.boot() - self._server.server_clock.measured_at > REFRESH_CLOCK:
            self._measure_clock()
        return self._db

    def _measure_clock(self) -> None:
        clock = self._server.server_clock
        assert self._db is not None
        asked = clock.boot()
        row = self._db.execute(load("postgres")["meta.server_time"]).fetchone()
        assert row is not None
        clock.measured(asked=asked, server=row[0], answered=clock.boot())

    def read(self, move: Move[Any]) -> Any:
        """A read sees one moment of the database, however many queries it makes. A lost connection is tried again."""
        for last in (False, True):
            try:
                db = self.db()
                db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                try:
                    return move.run(self._transaction(db, move))
                finally:
                    if not db.closed:
                        db.execute("ROLLBACK")
            except psycopg.OperationalError:
                if last or not self._gone():
                    raise
        raise AssertionError

    def write(self, move: Move[Any]) -> Any:
        """Commit a move, whatever happens to the connection on the way."""
        until = time.monotonic() + self._server.patience
        while True:
            db = self._db_within(until)
            tx = self._transaction(db, move)
            try:
                result = self._hot(move, tx) if move.hot is not None else MISSED
                if result is MISSED:
                    tx = self._transaction(db, move)
                    result = self._long(db, move, tx)
            except Lost as lost:
                self.close()
                if not (lost.after_commit and self._holds(tx, until)):
                    continue
                result = tx.result
            for callback in tx.after_commit:
                callback()
            if tx.touched:
                self._server.committed(tx.touched)
            return result

    def _db_within(self, until: float) -> psycopg.Connection[Row]:
        """A connection; a server that was there a moment ago is given time to come back."""
        while True:
            try:
                return self.db()
            except StoreUnavailable:
                if not self._was_connected or time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _transaction(self, db: psycopg.Connection[Row], move: Move[Any]) -> PostgresTransaction:
        return PostgresTransaction(db, self._server.clock.now(), move.id, self._server.restore_epoch)

    def _hot(self, move: Move[Any], tx: PostgresTransaction) -> Any:
        """One guarded statement, committed by itself: sent means possibly committed."""
        assert move.hot is not None
        faults.point("commit.before")
        try:
            tx.result = move.hot(tx)
        except psycopg.OperationalError as error:
            if self._gone():
                raise Lost(after_commit=True, cause=error) from error
            raise
        faults.point("commit.after")
        return tx.result

    def _long(self, db: psycopg.Connection[Row], move: Move[Any], tx: PostgresTransaction) -> Any:
        committing = False
        try:
            with db.pipeline() as tx.pipeline:
                db.execute("BEGIN")
                faults.point("move.before")
                tx.result = move.run(tx)
                faults.point("move.after")
                if not tx.wrote:
                    db.execute("ROLLBACK")
                    return tx.result
                faults.point("commit.before")
                committing = True
                db.execute("COMMIT")
            faults.point("commit.after")
        except BaseException as error:
            if isinstance(error, psycopg.OperationalError) and self._gone():
                raise Lost(after_commit=committing, cause=error) from error
            if not db.closed:
                db.execute("ROLLBACK")
            raise
        return tx.result

    def _gone(self) -> bool:
        return self._db is None or self._db.closed or self._db.broken

    def _holds(self, tx: PostgresTransaction, until: float) -> bool:
        """Whether a commit that was cut off holds. Locking the row waits for it, should it still be under way."""
        while True:
            try:
                db = self.db()
                with db.transaction():
                    look = PostgresTransaction(db, tx.now, tx.move_id, tx.restore_epoch)
                    for uid, number in tx.appended:
                        look.one("session.lock_head", uid=uid)
                        if look.one("event.of_move", uid=uid, number=number, move_id=tx.move_id):
                            return True
                    return False
            except (psycopg.OperationalError, StoreUnavailable) as error:
                self.close()
                if time.monotonic() > until:
                    raise CommitUnknown("A commit was sent, and PostgreSQL cannot be asked what came of it.") from error
                time.sleep(0.05)


def connect(url: str) -> psycopg.Connection[Row]:
    """Open a connection to the primary that gives up on a partitioned network by itself."""
    try:
        given = conninfo.conninfo_to_dict(url)
        defaults: dict[str, Any] = {
            "connect_timeout": 10,
            "tcp_user_timeout": 10_000,
            "target_session_attrs": "read-write",
            "application_name": "perdure",
            "options": TIME_LIMITS,
        }
        return psycopg.connect(**(defaults | given), autocommit=True)
    except psycopg.ProgrammingError as error:
        raise ConfigError(f"This is not a PostgreSQL address: {error}".strip() + ".") from error
    except psycopg.OperationalError as error:
        reason = str(error).strip().splitlines()[-1].removeprefix("connection failed: ")
        raise StoreUnavailable(f"PostgreSQL cannot be reached: {reason}.") from error


def prepare(db: psycopg.Connection[Row]) -> tuple[int, int]:
    """Create the tables in an empty database; say no to one that this code would misread."""
    migrator, migrations = PostgresMigrator(db), migrate.load("postgres")
    version, compatible_from = migrator.version()
    if version < len(migrations) and (version == 0 or not PostgresTransaction(db, 0, "open", 0).all("session.count")):
        migrate.migrate(migrator, migrations)  # new, or its creation was cut off: nobody has used it yet
        version, compatible_from = migrator.version()
    migrate.check(version, compatible_from, len(migrations))
    if version < len(migrations):
        raise SchemaMismatch(
            f"The store has schema {version}; this version of Perdure needs {len(migrations)}.",
            hint="Run `perdure migrate` once; workers may go on meanwhile.",
        )
    tx = PostgresTransaction(db, 0, "open", 0)
    return version, int(meta.get(tx, "restore_epoch") or 0)


def translate(error: BaseException) -> BaseException:
    """Our error for the driver's. The one place where PostgreSQL's errors are read."""
    if isinstance(error, PerdureError) or not isinstance(error, psycopg.Error):
        return error
    text = (error.diag.message_primary or str(error)).strip()
    if isinstance(error, psycopg.IntegrityError):
        if text.startswith("perdure: "):
            return IllegalMove(f"The database refused this: {text.removeprefix('perdure: ')}.")
        return Conflict(f"The database refused this: {text}.")
    if isinstance(error, (errors.DiskFull, errors.OutOfMemory)):
        return StoreFull("The database server has no room; nothing of this move was written.")
    if isinstance(error, (errors.QueryCanceled, errors.LockNotAvailable)):
        return StoreUnavailable(f"The database took too long: {text}.")
    if isinstance(error, (errors.DataError, psycopg.DataError)):
        return ConfigError(f"The database cannot hold this: {text}.")
    return StoreUnavailable(f"PostgreSQL failed: {text}.")
