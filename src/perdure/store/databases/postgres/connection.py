"""One connection to PostgreSQL, and how a lost connection is handled.

A move is one transaction that begins by locking its session's row. The hot moves are one guarded statement each: the
holder knows the head of the log, so the guard and the writes need no round trip in between; when the guard does not
hold, nothing was written and the move runs the regular way.

The effect of a lost connection depends on when it was lost. Before COMMIT was sent, nothing happened, and the move runs
again. After that, the outcome is unknown. Then we reconnect to the primary, lock the session's row (which waits for the
lost transaction, if it is still committing), and search for the move's id. A plain read could be wrong. If the id is
not there, the move runs again *in the same transaction*, under the same lock: a hot statement holds no lock until it
begins, so it may still be in transit during the search, and could be executed between the search and a second try.
Under the lock it is executed before the search and is found, or after the second try, whose new cursor its guard does
not match.

An error that is no answer of the server (`errors.is_answer`) loses the connection too: the next answer could belong to
another statement. Until the search for an earlier try is over, an error of any kind leaves its outcome unknown.
A connection is closed when it is silent for too long while a statement waits: a server or network that is gone is
detected by the kernel (keepalives, `tcp_user_timeout`), and one that acknowledges packets without an answer, such as a
stopped proxy, by the `StallWatch` of `stall.py`.

Every transaction is read committed, whatever the server, role or address set. What the server rolled back (a deadlock,
a serialization failure) is known not to have happened, and is tried again. Hot statements guard against a schema that
is too new for this code; other moves check right before COMMIT: after any wait for a migration's locks, without a round
trip.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import errors

from perdure import faults, process
from perdure.domain.restore import LossUnknown
from perdure.errors import CommitUnknown, LeaseLost, StoreError, StoreUnavailable
from perdure.store import failover, migrate
from perdure.store.databases.postgres.errors import OF_CONNECTION, ROLLED_BACK, ConnectionLost, is_answer
from perdure.store.databases.postgres.history import ANOTHER_SERVER, ServerIdentity, is_warning
from perdure.store.databases.postgres.migrator import PostgresMigrator, PostgresTransaction
from perdure.store.databases.postgres.pipeline import StatementPipeline
from perdure.store.databases.postgres.pipelined_transaction import HotTransaction, PipelinedTransaction
from perdure.store.move import Move, Row
from perdure.store.statements import load

if TYPE_CHECKING:
    from perdure.store.databases.postgres.database import PostgreSQL

logger = logging.getLogger(__name__)
READ_ATTEMPTS = 5
On = TypeVar("On")
Tx = TypeVar("Tx", bound=PostgresTransaction)


class Connection:
    """One connection, opened when it is first needed and again after it was lost."""

    def __init__(self, server: PostgreSQL, place: int = 1) -> None:
        """`place` is the slot of this connection among the acknowledgments of the process."""
        self._server = server
        self._place = place
        self._db: psycopg.Connection[Row] | None = None
        self._line: socket.socket | None = None
        self._born = process.generation
        self._at = ServerIdentity("", 0)  # the one that it is connected to
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
        if self._db is None or self._db.closed or self._at.timeline != self._server.history.timeline:
            self._open()
        elif self._server.server_clock.is_due():
            self._measure_clock()
        assert self._db is not None
        return self._db

    def _open(self) -> None:
        """Connect, and identify the server before anything is read from it or written to it."""
        self.close()
        process.check(self._born)
        self._db = self._server.connect()
        try:
            self._line = socket.socket(fileno=process.leave_to_parent(os.dup(self._db.fileno())))
            self._db.add_notice_handler(self._heard)
            self._db.prepare_threshold = (
                None  # psycopg would drop its prepared statements, and the pipeline's with them
            )
            self._at = self._server.history.check_timeline(self._db)
            self._pipeline = StatementPipeline(self._db, self._at.started)
            self._measure_clock()
            logger.debug("Connected to PostgreSQL, timeline %s.", self._at.timeline)
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
        """Run a read on one snapshot of the database, for any number of queries. A lost one is repeated."""
        until = time.monotonic() + self._server.patience
        for left in reversed(range(READ_ATTEMPTS)):
            try:
                self._within(until, self.db)
                self._waits()
                return self._read(move)
            except psycopg.Error as error:
                if lost := self._is_lost(error) or error.sqlstate == ANOTHER_SERVER:
                    self.close()
                if not left or not (lost or isinstance(error, ROLLED_BACK)):
                    raise
            finally:
                self._server.stall_watch.forget(self)
        raise AssertionError

    def _read(self, move: Move[Any]) -> Any:
        try:
            self._pipeline.begin_read()
            result = move.run(self._transaction(PipelinedTransaction, self._pipeline, move))
        except BaseException as error:
            if not self._is_lost(error):
                self._roll_back(self._pipeline)
            raise
        self._pipeline.roll_back()
        return result

    def write(self, move: Move[Any]) -> Any:
        """Commit a move, even if the connection is lost meanwhile."""
        until = time.monotonic() + self._server.patience
        unsure: list[PostgresTransaction] = []
        while True:
            try:
                with self._unsettled(unsure):
                    self._within(until, self._registered)
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
                if self._server.last_patience.is_over(until):
                    raise LeaseLost(str(error)) from error
                time.sleep(0.1)
            except psycopg.DatabaseError as error:
                if is_answer(error):
                    migrate.check(*PostgresMigrator(self.db()).version(), migrate.known())  # the likely cause
                raise
            else:
                for callback in tx.after_commit:
                    callback()
                if topics := tx.topics | tx.touched | {uid for uid, _ in tx.appended}:
                    self._server.wakeups.announce(topics)
                return tx.result
            finally:
                self._server.stall_watch.forget(self)

    def _note(self, tx: PostgresTransaction) -> None:
        """Note a commit that the server has acknowledged, before the caller gets the answer.

        It is treated as unknown if the server warned that it did not wait for its standby, or was replaced. Then the
        commit is searched for on the server that this process knows to be the primary.
        """
        if tx.wrote and (self._warned or not self._server.history.note(self._place, tx, self._at.timeline)):
            raise ConnectionLost(tx, psycopg.OperationalError(self._warned or "another server has taken over"))

    def _give_up_after(self, until: float, unsure: list[PostgresTransaction], error: BaseException) -> None:
        if self._server.last_patience.is_over(until):
            if unsure:
                raise CommitUnknown("A commit was sent, and PostgreSQL cannot be reached to check it.") from error
            raise StoreUnavailable(f"PostgreSQL failed repeatedly: {error}.") from error
        time.sleep(0.02)

    def _registered(self) -> psycopg.Connection[Row]:
        """Connect, and register before the first write."""
        db, history = self.db(), self._server.history
        if self._server.clock.boot() >= history.registered_until:
            history.register(db, self._at)
        return db

    def _within(self, until: float, connect: Callable[[], On]) -> On:
        """The server was there when the store was opened, so a lost one has time to return."""
        while True:
            try:
                return connect()
            except (StoreUnavailable, psycopg.Error) as error:
                if is_answer(error) and not isinstance(error, psycopg.OperationalError):
                    raise
                self.close()
                if self._server.last_patience.is_over(until):
                    raise
                time.sleep(0.05)

    @contextmanager
    def _unsettled(self, unsure: list[PostgresTransaction]) -> Iterator[None]:
        """Before these tries are searched for: an error of any kind leaves their outcome unknown."""
        try:
            yield
        except (psycopg.Error, StoreError) as error:
            if unsure:
                raise ConnectionLost(None, error) from error
            raise

    def _transaction(self, kind: Callable[[On, int, str, int], Tx], on: On, move: Move[Any]) -> Tx:
        tx = kind(on, self._server.clock.now(), move.id, self._server.restore_epoch)
        tx.boot = self._server.clock.boot()
        tx.identity = move.identity or self._server.identity
        tx.waits = self._waits
        tx.keep_lease = failover.keep_lease
        tx.intact, tx.switched_at = self._server.history.intact, self._server.history.switched_at
        return tx

    def _try(self, move: Move[Any], unsure: list[PostgresTransaction]) -> PostgresTransaction:
        """Write the move and return the try that is committed: this one, or an earlier one that seemed lost."""
        self._warned = ""
        if move.hot is not None and not unsure:
            tx = self._transaction(HotTransaction, self._pipeline, move)
            if self._hot(move, tx):
                return tx
        return self._long(move, self._transaction(PipelinedTransaction, self._pipeline, move), unsure)

    def _hot(self, move: Move[Any], tx: HotTransaction) -> bool:
        """One guarded statement that commits by itself: once sent, it may be committed. False: run the regular way."""
        assert move.hot is not None
        if (ready := move.hot(tx)) is None:
            return False
        tx.result = ready.answer
        faults.point("commit.before")
        try:
            made = ready.attempt(tx)
        except Exception as error:
            if self._is_lost(error):
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
            with self._unsettled(unsure):
                held = self._which_holds(tx, unsure)
            if held is None:
                tx.result = move.run(tx)
                faults.point("move.after")
                if not tx.wrote:
                    tx.pipeline.roll_back()
                    return tx
                for channel, payload in self._server.notifications.in_transaction(tx.topics):
                    tx.send("meta.notify", channel=channel, payload=payload)
            faults.point("commit.before")
            self._waits()
            sent = tx if held is None else None
            tx.synchronous = tx.pipeline.commit()
            faults.point("commit.after")
        except BaseException as error:
            if self._is_lost(error):
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
        except psycopg.Error:  # the server rolls back when the connection is closed
            self.close()

    def _is_lost(self, error: BaseException) -> bool:
        """Whether this error has ended the connection. A user's function may raise one of another connection."""
        return isinstance(error, OF_CONNECTION) and (self._db is None or self._db.closed)

    def _which_holds(self, tx: PostgresTransaction, unsure: list[PostgresTransaction]) -> PostgresTransaction | None:
        """The earlier try that is committed, if any. Locking the row waits for one that is still being committed.

        A standby may not have it yet. So the session's row is written again, unchanged: that commit waits until the
        standby has everything before it.
        """
        for earlier in unsure:
            for uid, number in earlier.appended:
                tx.one("session.lock_head", uid=uid)
                if tx.one("event.of_move", uid=uid, number=number, move_id=tx.move_id):
                    tx.send("session.rewrite", session_uid=uid)
                    return earlier
        return None
