"""Read-only access to a store: its location, its properties, and the durability of its connections.

`read_store` opens an existing store and changes nothing in it: it never creates or migrates a store and never waits for
the writers, so it also works on a store of another version, and on a full disk with the reserved space. The findings
are not evaluated here.
The queries take any transaction, and also work on an open store.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import apsw
import msgspec

from perdure.clock import Clock, ServerClock, SystemClock
from perdure.config import STORE_KINDS, default_store, without_password
from perdure.domain.restore import Cause, Restore
from perdure.domain.worker import WorkerRecord
from perdure.errors import ConfigError, NotFound, StoreUnavailable
from perdure.store.databases.sqlite import read_only, witness
from perdure.store.databases.sqlite.engine import SQLiteTransaction, connect, translate
from perdure.store.databases.sqlite.location import check_not_missing, companion
from perdure.store.databases.sqlite.witness import LastEvent
from perdure.store.move import StoreTransaction
from perdure.store.moves import meta, restore
from perdure.store.writer.lock import holder_of

SOME = 20
MANY = 100_000
ABSENT = "Check the address. A session started with it would create a new, empty store."

Kind = Literal["sqlite", "files", "memory", "postgres"]


class StoreLocation(msgspec.Struct, frozen=True):
    """Where a store is, or would be."""

    kind: Kind
    address: str
    shown: str
    path: Path | None
    folder: Path | None
    given: bool


def locate_store(target: str | None) -> StoreLocation:
    """The location that an address names; nothing is opened."""
    name = target if target is not None else str(default_store())
    given = target is not None
    if name.startswith(("postgresql://", "postgres://")):
        return StoreLocation("postgres", name, without_password(name), None, None, given)
    if name == "memory:":
        return StoreLocation("memory", name, name, None, None, given)
    if name.startswith("files:"):
        folder = Path(name.removeprefix("files:")).expanduser().absolute()
        return StoreLocation("files", name, f"files:{folder}", folder, folder, given)
    if "://" in name or not name.strip() or "\0" in name:
        shown = without_password(name) if "://" in name else name
        raise ConfigError(f"{shown!r} is not the address of a store.", hint=STORE_KINDS)
    path = Path(name).expanduser().absolute()
    return StoreLocation("sqlite", name, str(path), path, companion(path), given)


class StoreReader:
    """An existing store, open for reading.

    `offset` is the server's clock minus this machine's, if there is a server. `seen` is the event that the witness of a
    store on this machine named before the store was opened.
    """

    def __init__(
        self, tx: StoreTransaction, clock: Clock, offset: int | None = None, seen: LastEvent | None = None
    ) -> None:
        self.tx = tx
        self.clock = clock
        self.offset = offset
        self.seen = seen


@contextmanager
def read_store(location: StoreLocation) -> Iterator[StoreReader]:
    """Open an existing store for reading. Raises `NotFound`, `Damaged`, `StoreUnavailable` or `ConfigError`."""
    if location.kind == "postgres":
        with _read_server(location) as found:
            yield found
    elif location.kind == "files":
        with _read_files(location) as found:
            yield found
    else:
        with _read_file(location) as found:
            yield found


@contextmanager
def _read_file(location: StoreLocation) -> Iterator[StoreReader]:
    if location.path is not None:
        check_not_missing(location.path)
    if location.path is None or not location.path.exists():
        raise NotFound(f"There is no store at {location.shown}.", hint=ABSENT)
    if location.path.is_dir():
        raise ConfigError(
            f"{location.shown} is a folder.", hint=f"For a store of text files, use files:{location.shown}"
        )
    clock, path = SystemClock(), location.path
    seen = witness.read(companion(path))
    with read_only.open_read_only(path) as db:
        try:
            yield StoreReader(SQLiteTransaction(db, clock.now(), "look", 0), clock, seen=seen)
        except apsw.Error as error:
            raise translate(error, db.system_errno) from error


@contextmanager
def _read_files(location: StoreLocation) -> Iterator[StoreReader]:
    from perdure.store.databases.files.database import FilesEngine

    assert location.folder is not None
    if not (location.folder / "store.jsonl").exists():
        raise NotFound(f"There is no store at {location.shown}.", hint=ABSENT)
    with _lock_of_files(location) as holder:
        if holder is not None:
            raise StoreUnavailable(
                f"{holder} has {location.shown} open.", hint="Try again when that process has ended."
            )
        engine = FilesEngine(location.folder, clock := SystemClock())
        engine.replay()  # under the lock, because it truncates a partial line that a crash has left
        yield StoreReader(engine.transaction("look"), clock, seen=witness.read(location.folder))


@contextmanager
def _lock_of_files(location: StoreLocation) -> Iterator[str | None]:
    """Lock the store, or return the process that has it open. A copy without a lock file was never opened."""
    assert location.folder is not None
    try:
        lock = os.open(
            location.folder / "lock", os.O_RDONLY | os.O_CLOEXEC
        )  # enough for a lock, also without write permission
    except FileNotFoundError:
        yield None
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield holder_of(lock)
    else:
        yield None
    finally:
        os.close(lock)


def holder_of_files(location: StoreLocation) -> str | None:
    """The process that has a store of text files open; only one can."""
    with _lock_of_files(location) as holder:
        return holder


@contextmanager
def _read_server(location: StoreLocation) -> Iterator[StoreReader]:
    """Read a server, which may be a standby."""
    try:
        import psycopg

        from perdure.store.databases.postgres import database
        from perdure.store.databases.postgres.migrator import PostgresTransaction
    except ImportError:
        raise missing_driver() from None
    clock = ServerClock()
    try:
        with database.connect(
            f"{location.address}{'&' if '?' in location.address else '?'}target_session_attrs=any"
        ) as db:
            asked = clock.boot()
            row = PostgresTransaction(db, 0, "look", 0).one("meta.server_time")
            assert row is not None
            clock.measured(asked=asked, server=row[0], answered=clock.boot())
            yield StoreReader(PostgresTransaction(db, clock.now(), "look", 0), clock, clock.now() - SystemClock().now())
    except psycopg.Error as error:
        raise database.translate(error) from error


def missing_driver() -> ConfigError:
    return ConfigError(
        "PostgreSQL needs a package that is not installed.", hint="Run `pip install 'perdure[postgres]'`."
    )


def unrecorded_restore(found: StoreReader) -> Restore | None:
    """A restore that is not recorded yet: the next process that opens the store to write begins it."""
    tx = found.tx
    epoch, now = int(meta.get(tx, "restore_epoch") or 0), tx.now
    rewound_to = restore.rewound_to(tx)
    if (lost := witness.find_lost_event(tx, found.seen)) is not None:
        return Restore(max(epoch, lost.epoch) + 1, now, rewound_to, Cause.WITNESS, lost.what, None, None, None)
    if isinstance(tx, SQLiteTransaction):
        return None
    change = _other_timeline(tx)
    return None if change is None else Restore(epoch + 1, now, rewound_to, Cause.TIMELINE, change, None, None, None)


def _other_timeline(tx: StoreTransaction) -> str | None:
    """How the server's history differs from the one that the store was last used with; None if it does not."""
    import psycopg

    from perdure.store.databases.postgres.errors import is_answer

    known = meta.get(tx, restore.TIMELINE)
    try:
        (now,) = tx.one("restore.timeline") or (None,)
    except psycopg.Error as error:  # a standby, a server that hides it, or a role without the permission
        if not is_answer(error):
            raise
        return None
    return None if known is None or now is None or known == now else f"{known} became {now}"


def properties(tx: StoreTransaction) -> dict[str, str]:
    """The properties of the store; empty where there is no store, or a database of another program."""
    found = meta.properties(tx) if tx.one("meta.exists") else {}
    return found if {"store_id", "schema_version", "compatible_from"} <= found.keys() else {}


def workers(tx: StoreTransaction) -> list[WorkerRecord]:
    """Every worker, whatever the store's schema."""
    return [WorkerRecord.from_row(row) for row in tx.all("doctor.workers", limit=MANY)]


def holders(tx: StoreTransaction) -> set[str]:
    """The ids of the workers that hold a lease which has not run out, whatever the store's schema."""
    return {name.split("@")[0] for (name,) in tx.all("doctor.holders", now=tx.now, limit=MANY) if name}


def sqlite_version() -> str:
    return apsw.sqlite_lib_version()


class Durability(msgspec.Struct, frozen=True):
    """The actual durability settings of connections to a SQLite file."""

    journal_mode: str
    synchronous: str


def durability(tx: StoreTransaction, path: Path) -> Durability:
    """The journal mode of the file, and the settings of a connection that is opened as the store opens one."""
    journal_mode, _ = tx.one("doctor.durability") or ("unknown", 0)
    if journal_mode != "wal":  # a connection of the store would change that, and hide it
        return Durability(journal_mode, "unknown")
    db = connect(str(path), readonly=True)
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    try:
        _, synchronous = SQLiteTransaction(db, 0, "look", 0).one("doctor.durability") or ("", -1)
    except apsw.Error as error:
        raise translate(error) from error
    finally:
        db.close()
    return Durability(journal_mode, {0: "off", 1: "normal", 2: "full", 3: "extra"}.get(synchronous, "unknown"))


class Server(msgspec.Struct, frozen=True):
    """A PostgreSQL server, as the store's connections see it."""

    version: str
    database: str
    size: int
    synchronous_commit: str
    fsync: str
    full_page_writes: str
    synchronous_standby_names: str
    archive_mode: str
    in_recovery: bool
    timeline: int
    standbys: list[tuple[str, str]]
    absent_standbys: list[str]
    clients: dict[str, int]
    most_connections: int = 0  # that it allows; 0 where that is not known
    connections: int = 0  # that clients have now


def server(tx: StoreTransaction) -> Server:
    *row, most, connected = tx.one("doctor.server") or ()
    standbys = tx.all("doctor.standbys", limit=SOME)
    absent = [name for (name,) in tx.all("doctor.absent_standbys", limit=SOME)]
    clients: dict[str, int] = dict(tx.all("doctor.clients", limit=SOME))
    return Server(*(*row, standbys, absent, clients, most, connected))


def commit(tx: StoreTransaction) -> None:
    """Make one durable commit that changes no table."""
    tx.one("doctor.commit")
