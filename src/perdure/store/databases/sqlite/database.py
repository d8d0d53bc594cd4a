"""SQLite through apsw: one file, one machine, nothing to set up.

Order at creation: make the file, switch to WAL, create the tables, checkpoint, sync the file's folder, make the
witness, and only then accept work. Without that sync a power cut can remove the file that has acknowledged commits.

One writer connection lives on the group-commit thread; readers have connections and threads of their own and never
block it. This module never opens a file through a second copy of SQLite: that silently releases the locks of the first.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from perdure import faults, process
from perdure.clock import Clock
from perdure.domain.identity import os_identity
from perdure.domain.worker import Liveness, WorkerRecord
from perdure.durable import make_folder, move_into_place, sync_file, sync_folder
from perdure.errors import SchemaMismatch
from perdure.ids import new_uid
from perdure.store import migrate
from perdure.store.databases.sqlite.engine import SQLiteEngine, SQLiteTransaction, connect, translate
from perdure.store.databases.sqlite.location import (
    Reserve,
    announce,
    check_file_system,
    check_library,
    check_not_missing,
    companion,
    make_file,
    with_reserve,
)
from perdure.store.databases.sqlite.opened_files import OpenedFiles
from perdure.store.databases.sqlite.witness import Witness
from perdure.store.moves import meta
from perdure.store.writer.datagrams import Datagrams
from perdure.store.writer.group_commit import GroupCommit
from perdure.store.writer.lock import Presence, WriteLock, life_of
from perdure.store.writer.threads import Threads
from perdure.store.writer.ticket import Ticket
from perdure.store.writer.wakeup import Wakeups


class SQLite:
    """A database file, or memory (`path` is None).

    `exclusive` keeps everything on one connection: memory has only one, and a file system made of Python, such as the
    tests use, has no shared memory for a second.
    """

    dialect = "sqlite"
    identity = ""
    keeps_other_tables, messages = True, None

    def __init__(
        self, path: Path | None, clock: Clock, *, vfs: str | None = None, exclusive: bool = False, readers: int = 2
    ) -> None:
        check_library()
        self.clock, self.path = clock, path
        self.folder = companion(path) if path is not None else None
        self._vfs, self._exclusive = vfs, exclusive or path is None
        self.schema_version = self.restore_epoch = 0
        self._presence: Presence | None = None
        self._witness: Witness | None = None
        self._files: OpenedFiles | None = None
        if path is not None:
            self._presence = with_reserve(companion(path), lambda: self._prepare(path))
        self.wakeups = Wakeups(self._transport())
        try:
            self._commits = GroupCommit(self._opened, on_commit=self.wakeups.announce, witness=self._note)
        except BaseException:
            self._let_go()
            raise
        self._readers = None if self._exclusive else Threads("perdure-reader", readers, self._reader, self._serve_read)

    def _transport(self) -> Datagrams | None:
        if self._exclusive or self.folder is None or self.path is None:
            return None
        return Datagrams(self.folder / "wake", self.path)

    def _prepare(self, path: Path) -> Presence:
        check_file_system(path.parent.resolve())
        if self._vfs is None:
            check_not_missing(path)
        make_folder(folder := companion(path))
        Reserve(folder).fill()
        return announce(path)

    def _opened(self) -> SQLiteEngine:
        return self._writer() if self.folder is None else with_reserve(self.folder, self._writer)

    def _writer(self) -> SQLiteEngine:
        """Open the writing connection and prepare it, or release everything that was acquired for it."""
        lock = WriteLock(self.folder) if self.folder is not None else None
        try:
            engine = SQLiteEngine(self._first(lock), self.clock, lock)
        except BaseException:
            if lock is not None:
                lock.close()
            raise
        engine.files = self._files
        try:
            self._make_ready(engine)
        except BaseException as error:
            failure = engine.translate(error)
            with suppress(apsw.Error):
                engine.abandon()
            engine.close()
            raise failure from error
        return engine

    def _first(self, lock: WriteLock | None) -> apsw.Connection:
        """Open the first connection, which may create the file and switch it to WAL, under the write lock."""
        if lock is not None:
            lock.acquire()
        try:
            if self.path is not None and self._vfs is None:
                with suppress(PermissionError, FileNotFoundError, NotADirectoryError):  # SQLite reports the cause
                    make_file(self.path)
            db = connect(str(self.path or ":memory:"), vfs=self._vfs, exclusive=self._exclusive)
            if self.path is not None and self._vfs is None:
                self._files = OpenedFiles(self.path)
            return db
        finally:
            if lock is not None:
                lock.release()

    def _make_ready(self, engine: SQLiteEngine) -> None:
        """Bring the schema up to date, and make the file's existence durable."""
        faults.point("create.before")
        if self._migrate(engine):
            engine.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        faults.point("create.after")
        if self.folder is not None:
            engine.barrier()  # the last close removed the WAL: its new name must be durable before it is used
            sync_folder(self.folder.parent)
            if self._files is not None and not self._exclusive:
                self._files.add_wal()
            with suppress(OSError):  # a full disk: the store works without it
                self._witness = self._witness or Witness(self.folder)
        if self._witness is not None:
            self._witness.check_restore(engine)
        tx = engine.transaction("open")
        self.schema_version = int(meta.get(tx, "schema_version") or 0)
        self.restore_epoch = engine.restore_epoch = int(meta.get(tx, "restore_epoch") or 0)
        if self.folder is not None:
            engine.check = lambda: self._check_unchanged(tx)

    def _check_unchanged(self, tx: SQLiteTransaction) -> None:
        """Refuse a file that another process replaced, or migrated to a schema that this code does not know."""
        self._check_file()
        compatible_from = int(meta.get(tx, "compatible_from") or 0)
        if compatible_from > migrate.known():
            migrate.check(int(meta.get(tx, "schema_version") or 0), compatible_from, migrate.known())

    def _check_file(self) -> None:
        if self._files is not None:
            self._files.check()

    def _migrate(self, engine: SQLiteEngine) -> list[int]:
        """Migrate as far as living workers of older versions allow; refused if that is not far enough for this code."""
        migrator, steps = SQLiteMigrator(engine, self.folder), migrate.load("sqlite")
        version, _ = migrator.version()
        if version in (0, len(steps)) or self.folder is None:
            return migrate.migrate(migrator, steps)
        rows = engine.transaction("open").all("doctor.workers", limit=1000)
        alive = [
            one
            for one in map(WorkerRecord.from_row, rows)
            if life_of(self.folder / "workers", one.id) is Liveness.ALIVE
        ]
        applied = migrate.migrate(migrator, steps, oldest_alive=min((one.schema_to for one in alive), default=None))
        if (version := migrator.version()[0]) < migrate.needed(steps):
            broken = [one for one in alive if one.schema_to < steps[version].compatible_from]
            names = ", ".join(f"{one.id} (process {one.pid})" for one in broken)
            raise SchemaMismatch(
                f"The store has schema {version}, and the next migration would break older workers that are running: "
                f"{names}.",
                hint="Upgrade or stop them, then open the store again.",
            )
        return applied

    def _reader(self) -> apsw.Connection:
        self._check_file()  # a connection to another file would be kept after this one is back
        return connect(str(self.path), vfs=self._vfs, readonly=True)

    def _note(self, session_uid: str, number: int, move_id: str) -> None:
        if self._witness is not None:
            self._witness.note(session_uid, number, move_id)

    def _serve_read(self, db: apsw.Connection, ticket: Ticket[Any]) -> None:
        try:
            self._check_file()
            db.execute("BEGIN")
            try:
                tx = SQLiteTransaction(db, self.clock.now(), "read", 0)
                tx.boot, tx.identity = self.clock.boot(), ticket.move.identity or os_identity()
                ticket.result = ticket.move.run(tx)
            finally:
                if db.in_transaction:  # not after some errors, which the caller is to get
                    db.execute("ROLLBACK")
        except BaseException as error:
            ticket.error = translate(error, files=self._files)

    def submit_write(self, ticket: Ticket[Any]) -> None:
        self._commits.submit(ticket)

    def submit_read(self, ticket: Ticket[Any]) -> None:
        (self._readers or self._commits).submit(ticket)

    def limit_patience(self, seconds: float) -> None:
        """A file is never away."""

    def close(self) -> None:
        if self._readers is not None:
            self._readers.close()
        self._commits.close()
        self.wakeups.close()
        self._let_go()

    def _let_go(self) -> None:
        for held in (self._witness, self._presence):
            if held is not None:
                held.close()


class SQLiteMigrator(migrate.Migrator):
    """Migrations under a lock file of their own; the database is backed up first."""

    dialect = "sqlite"

    def __init__(self, engine: SQLiteEngine, folder: Path | None) -> None:
        self._engine = engine
        self._folder = folder
        self._lock: int | None = None

    def version(self) -> tuple[int, int]:
        tx = self._engine.transaction("migrate")
        if tx.one("meta.exists") is None:
            return (0, 0)
        return (int(meta.get(tx, "schema_version") or 0), int(meta.get(tx, "compatible_from") or 0))

    def lock(self) -> None:
        if self._folder is not None:
            self._lock = process.open_for_parent(self._folder / "migrate", os.O_RDWR | os.O_CREAT)
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def back_up(self, version: int) -> None:
        """Copy the database. Only a complete and durable copy gets the name of a backup."""
        if self._folder is None:
            return
        folder = self._folder / "backups"
        make_folder(folder)
        path = folder / f"schema-{version:04}-{new_uid()}.db"
        unfinished = path.with_suffix(".unfinished")
        make_file(unfinished)
        copy = apsw.Connection(str(unfinished))
        with copy.backup("main", self._engine.db, "main") as backup:
            backup.step()
        copy.close()
        with open(unfinished, "rb") as file:
            sync_file(file)
        move_into_place(unfinished, path)

    def apply(self, scripts: Iterable[str], properties: Mapping[str, str]) -> None:
        self._engine.begin()
        try:
            for script in scripts:
                self._engine.script(script)
            tx = self._engine.transaction("migrate")
            for key, value in properties.items():
                tx.send("meta.put", key=key, value=value)
            faults.point("migrate.after")
            self._engine.commit()
        except BaseException:
            self._engine.abandon()
            raise

    def batch(self, statement: str) -> int:
        self._engine.begin()
        try:
            changed = self._engine.script(statement)
            self._engine.commit()
        except BaseException:
            self._engine.abandon()
            raise
        return changed
