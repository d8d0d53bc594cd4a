"""One connection to PostgreSQL, and what a lost one means.

A move is one transaction that begins by locking its session's row. The hot moves are one guarded statement each: the
holder knows the head of the log, so the guard and the writes need no round trip in between; when the guard does not
hold, nothing was written and the move runs the long way.

What a lost connection means depends on when it was lost. Before COMMIT was sent: nothing happened, run again. After:
nobody knows. Then we reconnect to the primary, lock the session's row (which waits for the lost transaction, should it
still be committing), and search for the move's id. A plain read would lie. If it is not there the move runs again *in
the same transaction*, under the same lock: a hot statement holds no lock until it begins, so it may still be on its way
when we look, and would land between a look and a second try. This way it lands before the look and is found, or after
the second try, whose new cursor its guard does not match.

A connection is given up when it is silent for too long while somebody waits: a server or a network that is gone is
noticed by the kernel (keepalives, `tcp_user_timeout`), and one that still acknowledges and says nothing, as a stopped
proxy does, by the `Listener` of `silence.py`.

Every transaction is read committed, whatever server, role or address say. What the server rolled back (a deadlock, a
serialization failure) is known not to have happened, and is tried again. Hot statements guard against a schema that has
outgrown this code; other moves check right before COMMIT: after any wait for a migration's locks, at no round trip.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import conninfo, errors

from perdure import faults
from perdure.errors import CommitUnknown, ConfigError, Conflict, IllegalMove, PerdureError, StoreFull, StoreUnavailable
from perdure.store import migrate
from perdure.store.databases.postgres_migrator import PostgresMigrator, PostgresTransaction
from perdure.store.databases.wire import HotTransaction, PipelinedTransaction, Wire
from perdure.store.move import Move, Row
from perdure.store.statements import load

if TYPE_CHECKING:
    from perdure.store.databases.postgres import PostgreSQL

SETTINGS = (
    "-c synchronous_commit=on -c statement_timeout=30s -c lock_timeout=20s -c idle_in_transaction_session_timeout=60s"
)
ISOLATION = "-c default_transaction_isolation=read\\ committed"
ROLLED_BACK = (errors.SerializationFailure, errors.DeadlockDetected)  # the server says so: nothing of it happened
REFRESH_CLOCK = 60_000_000
On = TypeVar("On")
Tx = TypeVar("Tx", bound=PostgresTransaction)


class Lost(Exception):
    """The connection was lost; `sent` is the try whose COMMIT was on its way, if one was."""

    def __init__(self, sent: PostgresTransaction | None, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.sent = sent


class Connection:
    """One connection, opened when it is first needed and again when it was lost."""

    def __init__(self, server: PostgreSQL) -> None:
        self._server = server
        self._db: psycopg.Connection[Row] | None = None
        self._line: socket.socket | None = None
        self._was_connected = False
        self._history = ""  # of the server that it is connected to

    def close(self) -> None:
        self._server.listener.forget(self)
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._db is not None:
            self._db.close()
            self._db = None

    def db(self) -> psycopg.Connection[Row]:
        if self._db is None or self._db.closed or self._history != self._server.history:
            self._open()
        elif self._server.server_clock.boot() - self._server.server_clock.measured_at > REFRESH_CLOCK:
            self._measure_clock()
        assert self._db is not None
        return self._db

    def _open(self) -> None:
        """Connect, and look at which server this is before anything is read from it or written to it."""
        self.close()
        self._db = connect(self._server.url)
        try:
            self._line = socket.socket(fileno=os.dup(self._db.fileno()))
            self._wire = Wire(self._db)
            self._history = self._server.look_back(self._db)
            self._was_connected = True
            self._measure_clock()
        except BaseException:
            self.close()
            raise

    def _waits(self) -> None:
        """A statement is about to wait for its answer."""
        if self._line is not None:
            self._server.listener.expect(self, self._line)

    def _measure_clock(self) -> None:
        clock = self._server.server_clock
        assert self._db is not None
        self._waits()
        asked = clock.boot()
        row = self._db.execute(load("postgres")["meta.server_time"]).fetchone()
        assert row is not None
        clock.measured(asked=asked, server=row[0], answered=clock.boot())
        self._server.listener.forget(self)

    def read(self, move: Move[Any]) -> Any:
        """A read sees one moment of the database, however many queries it makes. A lost connection is tried again."""
        for last in (False, True):
            try:
                db = self.db()
                self._waits()
                db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                try:
                    return move.run(self._transaction(PostgresTransaction, db, move))
                finally:
                    if not db.closed:
                        db.execute("ROLLBACK")
            except psycopg.OperationalError as error:
                if last or not (self._gone() or isinstance(error, ROLLED_BACK)):
                    raise
            finally:
                self._server.listener.forget(self)
        raise AssertionError

    def write(self, move: Move[Any]) -> Any:
        """Commit a move, whatever happens to the connection on the way."""
        until = time.monotonic() + self._server.patience
        unsure: list[PostgresTransaction] = []
        while True:
            try:
                self._connect_within(until)
                tx = self._try(move, unsure)
            except ROLLED_BACK as error:
                self._give_up_after(until, unsure, error)
            except (Lost, psycopg.OperationalError, StoreUnavailable) as error:
                if isinstance(error, Lost):
                    unsure += [error.sent] if error.sent is not None else []
                elif not unsure:
                    raise
                self.close()
                self._give_up_after(until, unsure, error)
            except psycopg.DatabaseError:
                migrate.check(*PostgresMigrator(self.db()).version(), migrate.known())  # the likely cause, if it fails
                raise
            else:
                for callback in tx.after_commit:
                    callback()
                if touched := tx.touched | {uid for uid, _ in tx.appended}:
                    self._server.committed(touched)
                return tx.result
            finally:
                self._server.listener.forget(self)

    def _give_up_after(self, until: float, unsure: list[PostgresTransaction], error: BaseException) -> None:
        if time.monotonic() > until:
            if unsure:
                raise CommitUnknown("A commit was sent, and PostgreSQL cannot be asked what came of it.") from error
            raise StoreUnavailable(f"PostgreSQL failed again and again: {error}.") from error
        time.sleep(0.02)

    def _connect_within(self, until: float) -> None:
        """Be connected; a server that was there a moment ago is given time to come back."""
        while True:
            try:
                self.db()
                return
            except (StoreUnavailable, psycopg.OperationalError):
                self.close()
                if not self._was_connected or time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _transaction(self, kind: Callable[[On, int, str, int], Tx], on: On, move: Move[Any]) -> Tx:
        tx = kind(on, self._server.clock.now(), move.id, self._server.restore_epoch)
        tx.waits = self._waits
        return tx

    def _try(self, move: Move[Any], unsure: list[PostgresTransaction]) -> PostgresTransaction:
        """Write the move and return the try that holds: this one, or an earlier one that was thought lost."""
        if move.hot is not None and not unsure:
            tx = self._transaction(HotTransaction, self._wire, move)
            if self._hot(move, tx):
                return tx
        return self._long(move, self._transaction(PipelinedTransaction, self._wire, move), unsure)

    def _hot(self, move: Move[Any], tx: HotTransaction) -> bool:
        """One guarded statement, committed by itself: sent means possibly committed. False: take the long way."""
        assert move.hot is not None
        if (ready := move.hot(tx)) is None:
            return False
        tx.result = ready.answer
        faults.point("commit.before")
        try:
            made = ready.attempt(tx)
        except psycopg.OperationalError as error:
            if self._gone():
                raise Lost(tx, error) from error
            raise
        faults.point("commit.after")
        return made

    def _long(
        self, move: Move[Any], tx: PipelinedTransaction, unsure: list[PostgresTransaction]
    ) -> PostgresTransaction:
        sent: PostgresTransaction | None = None
        try:
            tx.wire.begin()
            faults.point("move.before")
            if (held := self._which_holds(tx, unsure)) is not None:
                tx.wire.roll_back()
                return held
            tx.result = move.run(tx)
            faults.point("move.after")
            if not tx.wrote:
                tx.wire.roll_back()
                return tx
            faults.point("commit.before")
            self._waits()
            sent = tx
            tx.wire.commit()
            faults.point("commit.after")
        except BaseException as error:
            if isinstance(error, psycopg.OperationalError) and self._gone():
                raise Lost(sent, error) from error
            self._roll_back(tx.wire)
            raise
        return tx

    def _roll_back(self, wire: Wire) -> None:
        try:
            wire.roll_back()
        except psycopg.Error:  # the server does it when we are gone
            self.close()

    def _gone(self) -> bool:
        return self._db is None or self._db.closed or self._db.broken

    def _which_holds(self, tx: PostgresTransaction, unsure: list[PostgresTransaction]) -> PostgresTransaction | None:
        """The earlier try that is committed, if one is. Locking the row waits for one that is still under way."""
        for earlier in unsure:
            for uid, number in earlier.appended:
                tx.one("session.lock_head", uid=uid)
                if tx.one("event.of_move", uid=uid, number=number, move_id=tx.move_id):
                    return earlier
        return None


def connect(url: str) -> psycopg.Connection[Row]:
    """Open a connection to the primary that gives up on a partitioned network by itself."""
    try:
        given = conninfo.conninfo_to_dict(url)
        defaults: dict[str, Any] = {
            "connect_timeout": 10,
            "tcp_user_timeout": 10_000,
            "keepalives_idle": 10,  # two hours by default: a server that vanished after our request would hold us
            "keepalives_interval": 3,
            "keepalives_count": 3,
            "target_session_attrs": "read-write",
            "application_name": "perdure",
        }
        given["options"] = f"{SETTINGS} {given.get('options') or ''} {ISOLATION}"  # the last word wins
        db = psycopg.connect(**(defaults | given), autocommit=True)
        db.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # of every `db.transaction()`
        return db
    except psycopg.ProgrammingError as error:
        raise ConfigError(f"This is not a PostgreSQL address: {error}".strip() + ".") from error
    except psycopg.OperationalError as error:
        reason = str(error).strip().splitlines()[0].removeprefix("connection failed: ").rstrip(".")
        raise StoreUnavailable(f"PostgreSQL cannot be reached: {reason}.") from error


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
