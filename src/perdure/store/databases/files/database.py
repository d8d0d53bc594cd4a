"""Sessions as text files: the same moves on SQLite in memory, rebuilt at open from append-only logs.

    DIR/lock                   held while the store is open: one process at a time
    DIR/store.jsonl            moves that belong to no session
    DIR/sessions/NAME.jsonl    one log per session
    DIR/witness                shows when the logs were restored; local to this machine, not for git

A line is one move, with every row it changed, so a move is complete or absent. Lines are numbered across all files;
replaying them in order rebuilds the tables. The files are text: they can be read, compared, and kept in git.

Order of writes: run the move in memory, append its line, sync the file, commit in memory, answer. A crash before the
sync leaves a torn last line or none, and the next open drops it; after it, the move is there. A complete line that was
not synced is there as well if only the process died: the next open syncs it before it writes anything else. When a
write fails, the line is truncated again; if even that fails, the content of the disk is unknown and the store refuses
further writes.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import apsw

from perdure import faults, process
from perdure.clock import Clock
from perdure.durable import FULL, make_folder, sync_folder
from perdure.errors import CommitUnknown, Damaged, StoreFull, StoreUnavailable
from perdure.ids import encode
from perdure.store import migrate
from perdure.store.databases.files.journal import Change, JournalLine, file_name, read_lines, readable, statement
from perdure.store.databases.sqlite.database import SQLiteMigrator
from perdure.store.databases.sqlite.engine import SQLiteEngine, connect
from perdure.store.databases.sqlite.witness import Witness
from perdure.store.moves import meta
from perdure.store.writer.group_commit import GroupCommit
from perdure.store.writer.lock import holder_of
from perdure.store.writer.ticket import Ticket
from perdure.store.writer.wakeup import Wakeups

DISPOSABLE = "search_"  # tables that are made again when they are needed


class FilesDatabase:
    """A folder of text files."""

    dialect = "sqlite"
    identity = ""
    keeps_other_tables, messages = False, None

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.clock = clock
        self.folder: Path | None = folder.absolute()
        self.schema_version = 0
        self.restore_epoch = 0
        make_folder(folder)
        make_folder(folder / "sessions")
        self._lock = process.open_for_parent(folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = holder_of(self._lock)
            os.close(self._lock)
            why, hint = "files: is for one process at a time", "Wait for it to end, or use a SQLite store."
            raise StoreUnavailable(f"{holder} has {folder} open, and {why}.", hint=hint) from None
        self.wakeups = Wakeups()
        self._witness = Witness(folder)
        try:
            note = self._witness.note
            self._commits = GroupCommit(self._writer, largest=1, on_commit=self.wakeups.announce, witness=note)
        except BaseException:
            self._let_go()
            raise

    def _writer(self) -> FilesEngine:
        assert self.folder is not None
        engine = FilesEngine(self.folder, self.clock)
        engine.replay()
        migrate.migrate(SQLiteMigrator(engine, None), migrate.load("sqlite"))
        self._witness.check_restore(engine)
        tx = engine.transaction("open")
        self.schema_version = int(meta.get(tx, "schema_version") or 0)
        self.restore_epoch = engine.restore_epoch = int(meta.get(tx, "restore_epoch") or 0)
        return engine

    def submit_write(self, ticket: Ticket[Any]) -> None:
        self._commits.submit(ticket)

    def submit_read(self, ticket: Ticket[Any]) -> None:
        self._commits.submit(ticket)

    def limit_patience(self, seconds: float) -> None:
        """A file is never away."""

    def close(self) -> None:
        self._commits.close()
        self.wakeups.close()
        self._let_go()

    def _let_go(self) -> None:
        self._witness.close()
        os.close(self._lock)


class FilesEngine(SQLiteEngine):
    """SQLite in memory whose commits are lines of text."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        super().__init__(connect(":memory:"), clock)
        self._folder = folder
        self._number = 0
        self._schema = 0
        self._changes: list[Change] = []
        self._move_id = ""
        self._files: dict[str, str] = {}
        self._named: set[Path] = set()  # files whose names are durable
        self._tables: dict[str, tuple[list[str], list[str]]] = {}
        self._watching = True
        self._broken = False
        self.db.preupdate_hook(self._changed)

    def begin(self) -> None:
        if self._broken:
            raise StoreUnavailable(
                "An earlier write failed half-way; the content of the files is unknown.", hint="Open the store again."
            )
        self._changes = []
        super().begin()

    def transaction(self, move_id: str) -> Any:
        self._move_id = move_id
        return super().transaction(move_id)

    def rollback_to_savepoint(self) -> None:
        self._changes = []
        super().rollback_to_savepoint()

    def script(self, text: str) -> int:
        """Migrations run again at replay; their changes are not logged."""
        self._watching = False
        try:
            return super().script(text)
        finally:
            self._watching = True
            self._tables.clear()

    def commit(self) -> None:
        process.check(self._born)
        if self._changes:
            self._write(self._file_of(self._changes))
        super().commit()

    def _changed(self, update: apsw.PreUpdate) -> None:
        if not self._watching or update.depth > 0 or update.table_name.startswith(DISPOSABLE):
            return  # what a trigger writes, it writes again at replay
        columns, key = self._describe(update.table_name)
        old = dict(zip(columns, map(readable, update.old), strict=True)) if update.old else {}
        new = dict(zip(columns, map(readable, update.new), strict=True)) if update.new else {}
        if not old:
            self._changes.append(["insert", update.table_name, {k: v for k, v in new.items() if v is not None}])
        elif not new:
            self._changes.append(["delete", update.table_name, {k: old[k] for k in key}])
        else:
            if changed := {k: v for k, v in new.items() if v != old[k]}:
                self._changes.append(["update", update.table_name, {k: old[k] for k in key}, changed])

    def _describe(self, table: str) -> tuple[list[str], list[str]]:
        if table not in self._tables:
            rows = list(self.db.execute(f"PRAGMA table_info({table})"))
            key = [name for _, name in sorted((row[5], row[1]) for row in rows if row[5])]
            self._tables[table] = ([row[1] for row in rows], key)
        return self._tables[table]

    def _file_of(self, changes: list[Change]) -> Path:
        """A move is logged in the file of the first session it changed."""
        for _, table, row, *_ in changes:
            uid = row.get("uid") if table == "session" else row.get("session_uid")
            if uid is None:
                continue
            if uid not in self._files:
                self._files[uid] = file_name(row["id"] if "id" in row and table == "session" else uid, uid)
            return self._folder / "sessions" / self._files[uid]
        return self._folder / "store.jsonl"

    def _write(self, path: Path) -> None:
        faults.point("log.before")
        line = JournalLine(self._number + 1, self._clock.now(), self._move_id, self._changes)
        try:
            self._append(path, encode(line).encode() + b"\n")
        except OSError as error:
            raise failure(error) from error
        self._number += 1
        faults.point("log.synced")

    def _append(self, path: Path, content: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            try:
                write_all(descriptor, content)
                faults.point("log.written")
                os.fsync(descriptor)
                if path not in self._named:
                    sync_folder(path.parent)
                    self._named.add(path)
            except BaseException as error:
                self._cut_off(descriptor, size, error)
                raise
        finally:
            os.close(descriptor)

    def _cut_off(self, descriptor: int, size: int, failure: BaseException) -> None:
        self._broken = True
        if isinstance(failure, OSError):  # any other error ends this process, and is not the disk's fault
            try:
                os.ftruncate(descriptor, size)
                os.fsync(descriptor)
            except OSError:
                raise CommitUnknown(
                    "A line was written, and it cannot be determined whether the disk has it."
                ) from failure
            self._broken = False

    def replay(self) -> None:
        """Rebuild the tables from the logs."""
        lines: list[tuple[JournalLine, Path]] = []
        torn: list[tuple[Path, int]] = []
        for path in [self._folder / "store.jsonl", *sorted((self._folder / "sessions").glob("*.jsonl"))]:
            whole, end, size = read_lines(path)
            lines += ((line, path) for line in whole)
            if end < size:
                torn.append((path, end))
        lines.sort(key=lambda item: item[0].n)
        if len(torn) > 1:
            where = f"{len(torn)} files in {self._folder}"
            raise Damaged(f"{where} end in the middle of a line; a crash can cause only one.")
        for place, (line, path) in enumerate(lines, 1):
            if line.n != place:
                raise Damaged(f"Line {place} is missing from {self._folder}; {path.name} continues with {line.n}.")
        self._watching = False
        self.db.execute("BEGIN")
        for line, path in lines:
            self._apply(line, path)
        self.db.execute("COMMIT")
        self._watching = True
        self._number = len(lines)
        for path, end in torn:
            os.truncate(path, end)
        self._make_durable({path for path, _ in torn} | {path for _, path in lines[-1:]})
        self._named = {path for _, path in lines}

    def _make_durable(self, paths: set[Path]) -> None:
        """Sync what was just read: its writer may have died between writing and syncing."""
        for path in paths:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(self._folder / "sessions")
        sync_folder(self._folder)

    def _apply(self, line: JournalLine, path: Path) -> None:
        for change in line.rows:
            operation, table, row = change[:3]
            if table == "meta" and row.get("key") == "schema_version":
                self._migrate_to(int((row | (change[3] if operation == "update" else {}))["value"]))
            if table == "session" and operation == "insert":
                self._files[row["uid"]] = path.name
            try:
                self.db.execute(*statement(operation, table, row, *change[3:]))
            except apsw.Error as error:
                raise Damaged(f"Line {line.n} in {path.name} does not fit the lines before it: {error}.") from None

    def _migrate_to(self, version: int) -> None:
        known = migrate.load("sqlite")
        migrate.check(version, version, len(known))
        for migration in known[self._schema : version]:
            for script in migration.scripts:
                self.db.execute(script)
            while migration.backfill is not None:
                self.db.execute(migration.backfill)
                if not self.db.changes():
                    break
        self._schema = version
        self._tables.clear()


def write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def failure(error: OSError) -> StoreFull | StoreUnavailable:
    if error.errno in FULL:
        return StoreFull("The disk is full; nothing of this move was written.")
    return StoreUnavailable(f"The disk failed: {error.strerror}.")
