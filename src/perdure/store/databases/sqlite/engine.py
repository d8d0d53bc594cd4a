"""Transactions on SQLite: the writer's connection, and the translation of SQLite's errors.

Used by every store that keeps its rows in SQLite: a file, memory, or memory rebuilt from text files.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import apsw

from perdure import process
from perdure.clock import Clock
from perdure.domain.identity import os_identity
from perdure.durable import FULL, QUOTA
from perdure.errors import (
    ConfigError,
    Conflict,
    Damaged,
    IllegalMove,
    PerdureError,
    PolicyChanged,
    StoreFull,
    StoreUnavailable,
)
from perdure.ids import new_uid
from perdure.store.databases.sqlite import raw_rows
from perdure.store.databases.sqlite.inherited_files import check_not_inherited
from perdure.store.databases.sqlite.opened_files import OpenedFiles, identity_of
from perdure.store.hot_move import GuardedWrite
from perdure.store.move import Row, StoreTransaction
from perdure.store.statements import load
from perdure.store.writer.lock import WriteLock

MOVE_LIMIT = 30.0
CHECKPOINT_PAGES = 1000
OF_FILES = (apsw.CorruptError, apsw.NotADBError, apsw.CantOpenError, apsw.IOError)


class SQLiteTransaction(StoreTransaction):
    """Named statements on a connection whose transaction is open."""

    def __init__(self, db: apsw.Connection, now: int, move_id: str, restore_epoch: int) -> None:
        super().__init__(now, move_id, restore_epoch)
        self._db = db
        self._born = process.generation
        self._sql = load("sqlite")

    def run(self, name: str, /, **values: Any) -> int:
        self.wrote = True
        self._db.execute(self._sql[name], values)
        return self._db.changes()

    def send(self, name: str, /, **values: Any) -> None:
        self.wrote = True
        self._db.execute(self._sql[name], values)

    def write_guarded(self, hot: GuardedWrite[Any]) -> bool:
        self.wrote = True
        execute, sql = self._db.execute, self._sql
        execute(sql[hot.parts[0]], hot.values)
        if not self._db.changes():
            return False
        for part in hot.parts[1:]:
            execute(sql[part], hot.values)
        return True

    def execute(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        """Some errors (`insert or rollback`, a trigger, a full disk) roll back the whole transaction and end it.

        Then no further statement may run: each would be a transaction by itself, and commit.
        """
        process.check(self._born)
        self.wrote = True
        if self.rolled_back is not None:
            raise self.rolled_back
        try:
            return self._execute(sql, parameters)
        except Exception as error:
            if not self._db.in_transaction:
                self.rolled_back = error
            raise

    def _execute(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        try:
            return self._db.execute(sql, tuple(parameters)).fetchall()
        except (apsw.ConstraintError, apsw.MismatchError) as error:
            raise Conflict(f"The database refused this: {error}.") from error
        except (apsw.SQLError, apsw.BindingsError, apsw.RangeError, TypeError) as error:
            raise ConfigError(f"The statement cannot be run: {error}.") from error

    def one(self, name: str, /, **values: Any) -> Row | None:
        try:
            return self._db.execute(self._sql[name], values).fetchone()
        except UnicodeDecodeError as error:
            raise raw_rows.not_text(name) from error

    def all(self, name: str, /, **values: Any) -> list[Row]:
        try:
            return self._db.execute(self._sql[name], values).fetchall()
        except UnicodeDecodeError as error:
            raise raw_rows.not_text(name) from error

    def raw(self, name: str, /, **values: Any) -> list[Row]:
        """All rows of a named query; a text that is not UTF-8 comes as bytes."""
        return raw_rows.rows(self._db, self._sql[name], values)


class SQLiteEngine:
    """The writer's connection. `lock` is None where no other process can open the database."""

    def __init__(self, db: apsw.Connection, clock: Clock, lock: WriteLock | None = None) -> None:
        self._db = db
        self._born = process.generation
        self.restore_epoch = 0
        self.check: Callable[[], None] | None = None  # raises if the store is no longer the one that was opened
        self.files: OpenedFiles | None = None
        self._clock = clock
        self._lock = lock
        self._holds_lock = False
        self._deadline = math.inf
        self._wal_pages = 0
        db.set_progress_handler(self._too_long, 100_000)
        db.set_wal_hook(self._grown)  # instead of SQLite's own checkpoints, which run inside COMMIT

    @property
    def db(self) -> apsw.Connection:
        """The connection. A child that was forked during a move shares the file and must not use it."""
        process.check(self._born)
        return self._db

    def begin(self) -> None:
        if self._lock is not None:
            self._lock.acquire()
            self._holds_lock = True
        self._deadline = time.monotonic() + MOVE_LIMIT
        self.db.execute("BEGIN IMMEDIATE")
        if self.check is not None:
            self.check()

    def script(self, text: str) -> int:
        """Run statements that change the schema or backfill it; return how many rows the last one changed.

        They have no time limit: an interrupted migration would never complete.
        """
        self._deadline = math.inf
        self.db.execute(text)
        return self.db.changes()

    def savepoint(self) -> None:
        self._deadline = time.monotonic() + MOVE_LIMIT
        self.db.execute("SAVEPOINT move")

    def release(self) -> None:
        self.db.execute("RELEASE move")

    def rollback_to_savepoint(self) -> None:
        self.db.execute("ROLLBACK TO move")
        self.db.execute("RELEASE move")

    def commit(self) -> None:
        try:
            self.db.execute("COMMIT")
        except apsw.IOError as error:
            if self.db.system_errno in QUOTA:  # SQLite reports only ENOSPC as a full disk
                raise apsw.FullError(str(error)) from error
            raise
        self._release_lock()

    def abandon(self) -> None:
        try:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
        finally:
            self._release_lock()

    def _release_lock(self) -> None:
        if self._lock is not None and self._holds_lock:
            self._holds_lock = False
            self._lock.release()

    def in_transaction(self) -> bool:
        return self.db.in_transaction

    def transaction(self, move_id: str) -> SQLiteTransaction:
        tx = SQLiteTransaction(self.db, self._clock.now(), move_id, self.restore_epoch)
        tx.boot = self._clock.boot()
        tx.identity = os_identity()
        return tx

    def translate(self, error: BaseException) -> BaseException:
        return translate(error, self.db.system_errno, self.files)

    def is_ambiguous(self, error: BaseException) -> bool:
        """Whether a failed commit may be durable: not if the database was busy or the disk full; else it is unknown."""
        return isinstance(error, apsw.Error) and not isinstance(error, (apsw.BusyError, apsw.FullError))

    def barrier(self) -> None:
        """A synced write: after it, what a plain read shows is what a crash would leave."""
        self.begin()
        self.transaction("barrier").send("meta.put", key="barrier", value=new_uid())
        self.commit()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def rest(self) -> None:
        """Checkpoint a long WAL while no caller waits for an answer. A reader that prevents it is no error."""
        if self._wal_pages >= CHECKPOINT_PAGES:
            self._wal_pages = 0
            with suppress(apsw.Error):
                self.db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _grown(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _too_long(self) -> bool:
        return time.monotonic() > self._deadline

    def close(self) -> None:
        if self.files is not None and not self.files.may_remove_wal():
            self.db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self.db.close()
        if self._lock is not None:
            self._lock.close()


def connect(path: str, *, vfs: str | None = None, readonly: bool = False, exclusive: bool = False) -> apsw.Connection:
    """Open a connection with the settings of the store."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
    with open_connection(path, flags, vfs=vfs) as db:
        if exclusive:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
        if path != ":memory:":
            db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA fullfsync = 1")
        db.execute("PRAGMA foreign_keys = 1")
        db.execute("PRAGMA recursive_triggers = 1")
        if readonly:
            db.execute("PRAGMA query_only = 1")
    return db


def connect_read_only(path: str) -> apsw.Connection:
    """A connection that reads one snapshot of a file and changes nothing in it.

    Even that may need disk space, for the files that SQLite keeps beside it.
    """
    with open_connection(path, apsw.SQLITE_OPEN_READONLY) as db:
        db.execute("BEGIN")
        db.execute("PRAGMA schema_version").fetchall()
    return db


@contextmanager
def open_connection(path: str, flags: int, vfs: str | None = None) -> Iterator[apsw.Connection]:
    """A connection, closed again if its setup fails."""
    check_not_inherited(path)
    files = OpenedFiles(path) if identity_of(path) is not None else None
    try:
        db = apsw.Connection(path, flags=flags, vfs=vfs, statementcachesize=200)
    except apsw.Error as error:
        raise translate(error) from error
    try:
        db.set_busy_timeout(5000)
        yield db
    except apsw.Error as error:
        failure = translate(error, db.system_errno, files)
        db.close()
        raise failure from error


def translate(error: BaseException, system_errno: int = 0, files: OpenedFiles | None = None) -> BaseException:
    """Translate an error of the driver. The only place where SQLite's errors are interpreted.

    SQLite reports a full disk only for writes. Where it creates or enlarges a file it reports an I/O error, and only
    the extended code or the system's error number shows the cause. Where one of the files was removed, it may report
    that the database is damaged.
    """
    if isinstance(error, PerdureError) or not isinstance(error, apsw.Error):
        return error
    if files is not None and isinstance(error, OF_FILES) and (change := files.change()) is not None:
        return change
    if isinstance(error, (apsw.IOError, apsw.CantOpenError)) and (
        getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE or system_errno in FULL
    ):
        return StoreFull("The disk is full; nothing was written.")
    text = str(error)
    for kinds, make in _ERRORS:
        if isinstance(error, kinds):
            return make(text)
    return StoreUnavailable(f"SQLite failed: {text}.")


def _constraint(text: str) -> PerdureError:
    if text.endswith(": attempt.policy_version"):
        return PolicyChanged("The policy changed before the dispatch, or is frozen; nothing was dispatched.")
    if "perdure: " in text:
        return IllegalMove(f"The database refused this: {text.split('perdure: ', 1)[1]}.")
    return Conflict(f"The database refused this: {text}.")


_ERRORS: tuple[tuple[tuple[type[BaseException], ...], Callable[[str], PerdureError]], ...] = (
    ((apsw.ConstraintError, apsw.MismatchError), _constraint),
    ((apsw.FullError,), lambda _: StoreFull("The disk is full; nothing of this move was written.")),
    ((apsw.BusyError, apsw.LockedError), lambda _: StoreUnavailable("The database is busy with another program.")),
    ((apsw.InterruptError,), lambda _: StoreUnavailable(f"The move took longer than {MOVE_LIMIT:g} s.")),
    ((apsw.CorruptError,), lambda text: Damaged(f"The database file is damaged: {text}.")),
    ((apsw.NotADBError,), lambda _: Damaged("This is not a SQLite file.", hint="Check the path.")),
    ((apsw.ReadOnlyError, apsw.PermissionsError), lambda _: StoreUnavailable("The store cannot be written.")),
    ((apsw.CantOpenError,), lambda text: StoreUnavailable(f"The database file cannot be opened: {text}.")),
    ((apsw.IOError,), lambda text: StoreUnavailable(f"The disk failed: {text}.")),
)
