"""The store: writes moves and runs queries, with any of the databases.

    await store.write(move)        commit a move; the answer comes when it is durable
    store.write_now(move)          the same, for callers that have no event loop
    await store.read(query, ...)   a consistent read; never blocks a write

`open_store` chooses the database by the target:

    None                           the user's own SQLite file
    some/path.db                   a SQLite file
    memory:                        SQLite in memory; nothing is kept
    files:DIR                      readable text files, for one process at a time
    postgresql://...               PostgreSQL
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar
from weakref import WeakSet

from perdure import process
from perdure.clock import Clock, SystemClock
from perdure.config import STORE_KINDS, default_store
from perdure.domain.event import Event
from perdure.domain.identity import os_identity
from perdure.domain.move_guard import current_guard
from perdure.errors import ConfigError
from perdure.store.databases.sqlite.opened_files import identity_of
from perdure.store.messages import MessageBus
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import event
from perdure.store.writer.ticket import Ticket, read_move
from perdure.store.writer.wakeup import SLOW_POLL, Wakeups

T = TypeVar("T")
P = ParamSpec("P")


SERVICE = "service"  # the dialect of a database that is a service


class Database(Protocol):
    """The interface of a database."""

    dialect: str
    clock: Clock
    wakeups: Wakeups
    folder: Path | None
    schema_version: int
    identity: str  # `db:ROLE`; empty where the operating system says who acts
    keeps_other_tables: bool  # whether tables of other programs are still there after the store is opened again

    @property
    def messages(self) -> MessageBus | None: ...  # None: all processes are on one machine, which has files for this
    @property
    def restore_epoch(self) -> int: ...

    def submit_write(self, ticket: Ticket[Any]) -> None: ...
    def submit_read(self, ticket: Ticket[Any]) -> None: ...
    def limit_patience(self, seconds: float) -> None: ...
    def close(self) -> None: ...


_OPEN: WeakSet[Store] = WeakSet()


class Store:
    """An open store. Use it as a context manager, or close it."""

    def __init__(self, database: Database, target: str) -> None:
        self.database = database
        self.target = target
        self.clock = database.clock
        self.wakeups = database.wakeups
        self.messages = database.messages
        self.folder = database.folder
        self.place = place_of(target)
        self._closed = False
        self._born = process.generation
        _OPEN.add(self)

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def identity(self) -> str:
        """Who this process is to the store: `os:UID`, or `db:ROLE` on PostgreSQL."""
        return self.database.identity or os_identity()

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child made by `fork()`, and its parent opened the store."""
        return self._born != process.generation

    def check_process(self) -> None:
        """Refuse to be used in a child made by `fork()`."""
        process.check(self._born)

    async def write(self, move: Move[T]) -> T:
        """Commit a move. Cancelling the caller does not undo the move."""
        self.check_process()
        ticket = Ticket(_guarded(move), asyncio.get_running_loop())
        self.database.submit_write(ticket)
        return await ticket.outcome()

    def write_for(self, move: Move[T], future: asyncio.Future[T]) -> None:
        """Commit a move, from any thread, for a coroutine that awaits `future` in a loop that has used the store."""
        self.check_process()
        self.database.submit_write(Ticket(move, future.get_loop(), future))

    def write_now(self, move: Move[T]) -> T:
        """Commit a move and block until it is durable."""
        return self.submit(move).wait()

    def submit(self, move: Move[T]) -> Ticket[T]:
        """Submit a move, for a thread that waits for its answer later."""
        self.check_process()
        ticket = Ticket(_guarded(move), None)
        self.database.submit_write(ticket)
        return ticket

    async def read(self, query: Callable[Concatenate[StoreTransaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query on one snapshot of the store."""
        self.check_process()
        ticket = Ticket(read_move(query, *args, **kwargs), asyncio.get_running_loop())
        self.database.submit_read(ticket)
        return await ticket.outcome()

    def read_now(self, query: Callable[Concatenate[StoreTransaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query and block until it has its answer."""
        self.check_process()
        ticket = Ticket(read_move(query, *args, **kwargs), None)
        self.database.submit_read(ticket)
        return ticket.wait()

    async def follow(self, uid: str, after: int = 0, *, poll: float = SLOW_POLL) -> AsyncIterator[Event]:
        """A session's events after a number, without end: first those that exist, then each new one."""
        while True:
            seen = self.wakeups.version
            page = await self.read(event.after, uid, after)
            for line in page:
                after = line.number
                yield line
            if not page:
                await self.wakeups.wait(seen, uid, poll)

    def limit_patience(self, seconds: float) -> None:
        """From now on, wait at most so long in all for a database that is away: this process ends."""
        if not self.is_forked:
            self.database.limit_patience(seconds)

    def close(self) -> None:
        """Finish what was submitted and close the database. A second call does nothing.

        In a forked child there is nothing to close: the store belongs to the parent.
        """
        if not self._closed and not self.is_forked:
            self._closed = True
            self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_store(target: str | Path | None = None, *, clock: Clock | None = None, connections: int = 8) -> Store:
    """Open the store at `target`, creating it if there is none."""
    name = str(target) if target is not None else str(default_store())
    if not name.strip() or "\0" in name:
        raise ConfigError("The address of the store is empty or contains a NUL.", hint="Give a path, or postgresql://…")
    return Store(_database(name, clock, connections), name)


def place_of(target: str) -> Path | None:
    """The file or the folder of a store on this machine; None for a server and for memory."""
    if target == "memory:" or "://" in target:
        return None
    return Path(target.removeprefix("files:")).expanduser().absolute()


def open_places() -> set[Path]:
    """The files and folders of the stores that are open in this process."""
    return {one.place for one in list(_OPEN) if one.place is not None and not one.is_closed}


def is_open_file(path: Path) -> bool:
    """Whether SQLite has a file open in this process. It must not be read: closing it would release SQLite's locks."""
    found = identity_of(path)
    names = (f"{place}{suffix}" for place in open_places() for suffix in ("", "-wal", "-shm"))
    return found is not None and any(identity_of(name) == found for name in names)


def _guarded(move: Move[T]) -> Move[T]:
    if (guard := current_guard()) is not None:
        move.run, move.hot = guard.around(move, move.run), None
    return move


def _database(name: str, clock: Clock | None, connections: int) -> Database:
    if name.startswith(("postgresql://", "postgres://")):
        try:
            from perdure.store.databases.postgres.database import PostgreSQL
        except ImportError:
            raise ConfigError(
                "PostgreSQL needs a package that is not installed.", hint="Run `pip install 'perdure[postgres]'`."
            ) from None
        return PostgreSQL(name, connections=connections, clock=clock)
    if name == "memory:":
        from perdure.store.databases.sqlite.database import SQLite

        return SQLite(None, clock or SystemClock())
    if name.startswith("files:"):
        from perdure.store.databases.files.database import FilesDatabase

        return FilesDatabase(Path(name.removeprefix("files:")).expanduser(), clock or SystemClock())
    if "://" in name:
        raise ConfigError(
            f"{name.split('://', 1)[0]}:// is not a kind of store.",
            hint=STORE_KINDS,
        )
    from perdure.store.databases.sqlite.database import SQLite

    return SQLite(Path(name).expanduser().absolute(), clock or SystemClock())
