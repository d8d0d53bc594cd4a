"""Which server a process writes to, and which commits servers have acknowledged to it.

Every connection checks the timeline before its first statement: the server's timeline is compared with the one that the
store was last used with (`restore.follow_timeline`). A process that has written before then searches for the commits it
had noted, and vouches for them. The consequences are in `store.failover`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Protocol, TypeVar

import msgspec
import psycopg
from psycopg import errors

from perdure.clock import Clock
from perdure.config import data_folder
from perdure.domain.writer import Acknowledgment
from perdure.errors import StoreError, StoreUnavailable
from perdure.ids import host
from perdure.store import failover
from perdure.store.databases.postgres.acknowledgments import Acknowledgments
from perdure.store.databases.postgres.connection_settings import limited_transaction
from perdure.store.databases.postgres.errors import is_answer
from perdure.store.databases.postgres.migrator import PostgresTransaction
from perdure.store.databases.postgres.pipeline import waits_for_standby
from perdure.store.move import Row
from perdure.store.moves import meta, restore

T = TypeVar("T")
ANOTHER_SERVER = "PD001"  # ours, raised by `meta.same_server`
REGISTRATION = 0  # the slot of the registration; each connection has a slot of its own


class ServerIdentity(msgspec.Struct, frozen=True):
    """Which server answered: its history, empty where it is hidden, and when it was started."""

    timeline: str
    started: int


class HasClock(Protocol):
    clock: Clock


class History:
    """What one process knows about the server of its store."""

    def __init__(self, store: HasClock, places: int) -> None:
        """`places` is the number of slots: one for each writing connection, and one for the registration."""
        self.timeline = ""
        self.restore_epoch = 0
        self.intact = 0
        self.switched_at = 0
        self.registered_until = 0
        self._store = store
        self._places = places
        self._store_id = ""
        self._vouched = ""
        self._noted = Acknowledgments(None)
        self._known = Lock()
        self._asking = Lock()

    def _boot(self) -> int:
        return self._store.clock.boot()

    def check_timeline(self, db: psycopg.Connection[Row]) -> ServerIdentity:
        """Begin a restore epoch if the server's history has changed; return which server it is, and its history.

        Every connection does this before its first statement: a thread may connect for the first time long after the
        store was opened, when another server has taken over. A server whose history has ended, as far as this process
        knows, is refused: it may be an old primary that is still in service.
        """
        server, epoch = check_timeline(db, self.restore_epoch)
        timeline = server.timeline
        with self._known:
            if restore.is_behind(timeline, self.timeline):
                raise StoreUnavailable(
                    f"This server is at timeline {timeline}, and this process has used {self.timeline} already.",
                    hint="Take the old primary out of service; only the new one may take writes.",
                )
            if self.timeline not in ("", timeline):
                self.switched_at = self._boot()
            self.timeline, self.restore_epoch = timeline, max(self.restore_epoch, epoch)
        with self._asking:
            if self._vouched != timeline:
                self._vouch(db, server)
                self._vouched = timeline
        return server

    def _vouch(self, db: psycopg.Connection[Row], server: ServerIdentity) -> None:
        """Search for the commits that this process noted under another timeline; later notes are under this one."""
        tx, noted, timeline = _transaction(db, "vouch", self.restore_epoch), self._noted, server.timeline
        if not self._vouched:
            self._store_id = meta.get(tx, "store_id") or ""
            self._noted = Acknowledgments(data_folder() / "writers" / self._store_id, self._places)
            newest = restore.newest(tx)
            if (
                newest is not None and newest.timeline is not None
            ):  # another process detected the change of server first
                self.switched_at = self._boot() - max(0, tx.now - newest.began_at)
        if not noted.registered:
            self.intact = self.restore_epoch
            return
        fresh = self._boot() < self.registered_until
        verdict = self._commit(
            db, server, lambda: failover.vouch(tx, noted.id, host(), timeline, noted.all(), registered=fresh)
        )
        self.intact = self.restore_epoch if verdict.intact else self.intact
        if verdict.finding is not None:
            noted.begin_again()
            self.registered_until = 0

    def register(self, db: psycopg.Connection[Row], server: ServerIdentity) -> None:
        """Register this process as a writer, and vouch for dead writers on this host, before its first write."""
        with self._asking:
            if self._boot() < self.registered_until:
                return
            if not (timeline := server.timeline):  # a server that hides it cannot be compared with another one
                self.registered_until = self._boot() + failover.REGISTERED_FOR
                return
            noted, tx = self._noted, _transaction(db, "register", self.restore_epoch)
            noted.open_file()
            asked = self._boot()
            noted.note(REGISTRATION, Acknowledgment(self._store_id, timeline, False, asked, asked))
            dead = list(noted.of_the_dead())

            def write() -> None:
                for id, left in dead:
                    failover.adopt(tx, id, timeline, left)
                failover.register(tx, noted.id, host(), timeline)

            self._commit(db, server, write)
            noted.registered = True
            self.registered_until = asked + failover.REGISTERED_FOR
            for id, _ in dead:
                noted.forget(id)

    def _commit(self, db: psycopg.Connection[Row], server: ServerIdentity, write: Callable[[], T]) -> T:
        """Commit rows about this process on that server, and note that commit like any other."""
        warned: list[errors.Diagnostic] = []
        db.add_notice_handler(warned.append)
        asked = self._boot()
        try:
            with limited_transaction(db):
                tx = PostgresTransaction(db, 0, "register", 0)
                tx.one("meta.same_server", server=server.started)
                result = write()
                (durability,) = tx.one("meta.durability") or ("",)
        except psycopg.Error as error:
            if error.sqlstate == ANOTHER_SERVER:
                raise StoreUnavailable("Another PostgreSQL server has taken over.") from error
            raise
        finally:
            db.remove_notice_handler(warned.append)
        synchronous = waits_for_standby(durability) and not any(map(is_warning, warned))
        self._noted.note(
            REGISTRATION, Acknowledgment(self._store_id, server.timeline, synchronous, asked, self._boot())
        )
        return result

    def note(self, place: int, tx: PostgresTransaction, timeline: str) -> bool:
        """Note an acknowledged commit. False: its server has been replaced by another one."""
        with self._known:
            if timeline != self.timeline:
                return False
            if tx.appended:
                uid, number = tx.appended[-1]
                one = Acknowledgment(
                    self._store_id, timeline, tx.synchronous, tx.boot, self._boot(), uid, number, tx.move_id
                )
                self._noted.note(place, one)
            return True

    def leave(self, connect: Callable[[], psycopg.Connection[Row]]) -> None:
        """End the registration. If the server cannot be reached, the next process on this host does it."""
        if not self._noted.registered:
            return
        with suppress(psycopg.Error, StoreError, OSError), connect() as db:
            self.check_timeline(db)
            PostgresTransaction(db, 0, "leave", 0).send("writer.delete", id=self._noted.id)
            self._noted.remove()
        self._noted.leave()


def is_warning(notice: errors.Diagnostic) -> bool:
    """Whether a commit may not have waited for its standby: the server then answers it with a warning."""
    return notice.severity_nonlocalized == "WARNING"


def check_timeline(db: psycopg.Connection[Row], known: int = 0) -> tuple[ServerIdentity, int]:
    """Compare the server's timeline with the one that the store was last used with.

    Returns the server, whose timeline is empty if it is hidden, and the restore epoch in force. `known` is the epoch
    that this process has seen: a used epoch must not be used again, even if its rows are lost. Each comparison is one
    transaction: behind a pooler, the next statement may be answered by another server.
    """
    with limited_transaction(db):
        server, recorded, epoch = _identify(db)
    while server.timeline and recorded != server.timeline:
        try:
            with limited_transaction(db):
                tx = _transaction(db, "restore", 0)
                tx.one("meta.exclude_migrations")
                server, recorded, epoch = _identify(db)
                if server.timeline:
                    restore.follow_timeline(tx, server.timeline, after=known)
                    server, recorded, epoch = _identify(db)
        except (errors.LockNotAvailable, errors.QueryCanceled):  # a migration may take longer than any other statement
            continue
    return server, epoch


def _identify(db: psycopg.Connection[Row]) -> tuple[ServerIdentity, str | None, int]:
    """The server of this transaction, the timeline that the store was last used with, and the restore epoch."""
    tx = PostgresTransaction(db, 0, "open", 0)
    try:
        with db.transaction():
            (timeline,) = tx.one("restore.timeline") or ("",)
    except errors.ObjectNotInPrerequisiteState as error:
        raise StoreUnavailable("This PostgreSQL server is a standby and accepts no writes.") from error
    except psycopg.Error as error:  # a server that hides it, or a role that may not ask
        if db.closed or not is_answer(error):
            raise
        timeline = ""
    (started,) = tx.one("meta.started") or (0,)
    return ServerIdentity(timeline, started), meta.get(tx, restore.TIMELINE), int(meta.get(tx, "restore_epoch") or 0)


def _transaction(db: psycopg.Connection[Row], move_id: str, restore_epoch: int) -> PostgresTransaction:
    (at,) = PostgresTransaction(db, 0, "open", 0).one("meta.server_time") or (0,)
    return PostgresTransaction(db, int(at), move_id, restore_epoch)
