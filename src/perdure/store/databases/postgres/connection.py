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

import logging
import os
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import errors

from perdure import faults, process
from perdure.domain.restore import LossUnknown
from perdure.errors import CommitUnknown, LeaseLost, StoreUnavailable
from perdure.store import migrate
from perdure.store.databases.postgres.connect import connect
from perdure.store.databases.postgres.history import is_warning
from perdure.store.databases.postgres.migrator import PostgresMigrator, PostgresTransaction
from perdure.store.databases.postgres.pipeline import HotTransaction, PipelinedTransaction, StatementPipeline
from perdure.store.move import Move, Row
from perdure.store.statements import load

if TYPE_CHECKING:
    from perdure.store.databases.postgres.database import PostgreSQL

logger = logging.getLogger(__name__)
ROLLED_BACK = (errors.SerializationFailure, errors.DeadlockDetected)  # the server says so: nothing of it happened
ANOTHER_SERVER = "PD001"  # ours, raised by `meta.same_server`
On = TypeVar("On")
Tx = TypeVar("Tx", bound=PostgresTransaction)


class ConnectionLost(Exception):
    """The connection was lost; `sent` is the try whose COMMIT was on its way, if one was."""

    def __init__(self, sent: PostgresTransaction | None, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.sent = sent


class Connection:
    """One connection, opened when it is first needed and again when it was lost."""

    def __init__(self, server: PostgreSQL, place: int = 1) -> None:
        """`place` is its own among what the process notes."""
        self._server = server
        self._place = place
        self._db: psycopg.Connection[Row] | None = None
        self._line: socket.socket | None = None
        self._born = process.generation
        self._history = ""  # of the server that it is connected to
        self._warned = ""

    def close(self) -> None:
        self._server.stall_watch.forget(self)
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._db is not None:
            self._db.close()
            self._db = None

    def db(self) -> psycopg.Connection[Row]:
        if self._db is None or self._db.closed or self._history != self._server.history.timeline:
            self._open()
        elif self._server.server_clock.is_due():
            self._measure_clock()
        assert self._db is not None
        return self._db

    def _open(self) -> None:
        """Connect, and look at which server this is before anything is read from it or written to it."""
        self.close()
        process.check(self._born)
        self._db = connect(self._server.url)
        try:
            self._line = socket.socket(fileno=process.leave_to_parent(os.dup(self._db.fileno())))
            self._db.add_notice_handler(self._heard)
            (started,) = PostgresTransaction(self._db, 0, "open", 0).one("meta.started") or (0,)
            self._pipeline = StatementPipeline(
                self._db, started
            )  # before the look: whoever comes later is another server to the pipeline
            self._history = self._server.history.check_timeline(self._db)
            self._measure_clock()
            logger.debug("Connected to PostgreSQL, timeline %s.", self._history)
        except BaseException:
            self.close()
            raise

    def _heard(self, notice: errors.Diagnostic) -> None:
        if is_warning(notice):
            self._warned = notice.message_primary or "a warning"

    def _waits(self) -> None:
        """A statement is about to wait for its answer."""
        if self._line is not None:
            self._server.stall_watch.expect(self, self._line)

    def _measure_clock(self) -> None:
        clock = self._server.server_clock
        assert self._db is not None
        self._waits()
        asked = clock.boot()
        row = self._db.execute(load("postgres")["meta.server_time"]).fetchone()
        assert row is not None
        clock.measured(asked=asked, server=row[0], answered=clock.boot())
        self._server.stall_watch.forget(self)

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
                self._server.stall_watch.forget(self)
        raise AssertionError

    def write(self, move: Move[Any]) -> Any:
        """Commit a move, whatever happens to the connection on the way."""
        until = time.monotonic() + self._server.patience
        unsure: list[PostgresTransaction] = []
        while True:
            try:
                self._connect_within(until)
                tx = self._try(move, unsure)
                self._note(tx)
            except ROLLED_BACK as error:
                self._give_up_after(until, unsure, error)
            except (ConnectionLost, psycopg.OperationalError, StoreUnavailable) as error:
                if isinstance(error, ConnectionLost):
                    unsure += [error.sent] if error.sent is not None else []
                elif not unsure:
                    raise
                logger.warning("The connection to PostgreSQL was lost during a write; it is tried again.")
                self.close()
                self._give_up_after(until, unsure, error)
            except LossUnknown as error:
                if time.monotonic() > until:
                    raise LeaseLost(str(error)) from error
                time.sleep(0.1)
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
                self._server.stall_watch.forget(self)

    def _note(self, tx: PostgresTransaction) -> None:
        """Note a commit that the server has acknowledged, before anybody is told of it.

        It is taken for unknown if the server warned that it did not wait for its standby, or has been replaced. Then it
        is searched for where it counts: on the server that this process knows to be the primary.
        """
        if tx.wrote and (self._warned or not self._server.history.note(self._place, tx, self._history)):
            raise ConnectionLost(tx, psycopg.OperationalError(self._warned or "another server has taken over"))

    def _give_up_after(self, until: float, unsure: list[PostgresTransaction], error: BaseException) -> None:
        if time.monotonic() > until:
            if unsure:
                raise CommitUnknown("A commit was sent, and PostgreSQL cannot be asked what came of it.") from error
            raise StoreUnavailable(f"PostgreSQL failed again and again: {error}.") from error
        time.sleep(0.02)

    def _connect_within(self, until: float) -> None:
        """Be connected and registered. The server was there when the store was opened: it has time to come back."""
        while True:
            try:
                db, history = self.db(), self._server.history
                db.prepare_threshold = None  # psycopg drops what it prepared at a rollback, and the pipeline's with it
                if self._server.clock.boot() >= history.registered_until:
                    history.register(db, self._history)
                return
            except (StoreUnavailable, psycopg.OperationalError):
                self.close()
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _transaction(self, kind: Callable[[On, int, str, int], Tx], on: On, move: Move[Any]) -> Tx:
        tx = kind(on, self._server.clock.now(), move.id, self._server.restore_epoch)
        tx.boot = self._server.clock.boot()
        tx.waits = self._waits
        tx.intact, tx.switched_at = self._server.history.intact, self._server.history.switched_at
        return tx

    def _try(self, move: Move[Any], unsure: list[PostgresTransaction]) -> PostgresTransaction:
        """Write the move and return the try that holds: this one, or an earlier one that was thought lost."""
        self._warned = ""
        if move.hot is not None and not unsure:
            tx = self._transaction(HotTransaction, self._pipeline, move)
            if self._hot(move, tx):
                return tx
        return self._long(move, self._transaction(PipelinedTransaction, self._pipeline, move), unsure)

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
                raise ConnectionLost(tx, error) from error
            raise
        faults.point("commit.after")
        return made

    def _long(
        self, move: Move[Any], tx: PipelinedTransaction, unsure: list[PostgresTransaction]
    ) -> PostgresTransaction:
        sent: PostgresTransaction | None = None
        try:
            tx.pipeline.begin()
            faults.point("move.before")
            if (held := self._which_holds(tx, unsure)) is None:
                tx.result = move.run(tx)
                faults.point("move.after")
                if not tx.wrote:
                    tx.pipeline.roll_back()
                    return tx
            faults.point("commit.before")
            self._waits()
            sent = tx if held is None else None
            tx.synchronous = tx.pipeline.commit()
            faults.point("commit.after")
        except BaseException as error:
            if isinstance(error, psycopg.OperationalError) and self._gone():
                raise ConnectionLost(sent, error) from error
            self._roll_back(tx.pipeline)
            if getattr(error, "sqlstate", None) == ANOTHER_SERVER:
                raise ConnectionLost(None, error) from error
            raise
        if held is not None:
            held.synchronous = tx.synchronous
        return held or tx

    def _roll_back(self, pipeline: StatementPipeline) -> None:
        try:
            pipeline.roll_back()
        except psycopg.Error:  # the server does it when we are gone
            self.close()

    def _gone(self) -> bool:
        return self._db is None or self._db.closed or self._db.broken

    def _which_holds(self, tx: PostgresTransaction, unsure: list[PostgresTransaction]) -> PostgresTransaction | None:
        """The earlier try that is committed, if one is. Locking the row waits for one that is still under way.

        That it is found does not mean that a standby has it. So something is written after it: what waits for that
        commit has waited for everything before it.
        """
        for earlier in unsure:
            for uid, number in earlier.appended:
                tx.one("session.lock_head", uid=uid)
                if tx.one("event.of_move", uid=uid, number=number, move_id=tx.move_id):
                    tx.send("session.touch", session_uid=uid, at=tx.now)
                    return earlier
        return None
