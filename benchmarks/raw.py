"""The raw limits: the drivers alone write one short row, as durable as an event of Perdure."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import psycopg

from perdure.domain.event import Event
from perdure.store.databases.sqlite.engine import connect
from perdure.store.statements import load

INSERT_SQLITE = "insert into line (body) values (?)"
INSERT_POSTGRES = "insert into line (body) values (%s)"


class RawSQLite:
    """apsw, WAL, full sync, a table with one index."""

    def __init__(self, path: Path) -> None:
        self.db = apsw.Connection(str(path))
        self.db.execute("pragma journal_mode = wal")
        self.db.execute("pragma synchronous = full")
        self.db.execute("create table line (number integer primary key, body text not null)")

    def insert(self, body: str) -> None:
        """One insert, one commit, one sync."""
        self.db.execute(INSERT_SQLITE, (body,))

    def group(self, bodies: list[str]) -> None:
        """Many inserts, one commit, one sync."""
        self.db.execute("begin immediate")
        for body in bodies:
            self.db.execute(INSERT_SQLITE, (body,))
        self.db.execute("commit")

    def close(self) -> None:
        self.db.close()


class RawEvents:
    """Only the rows of an event: no JSON, no hashing, no lease check, no waiting caller."""

    def __init__(self, path: Path, uids: list[str]) -> None:
        self.db = connect(str(path))
        self._uids = uids
        self._number = 1000
        self._sql = load("sqlite")

    def group(self, body: str) -> None:
        """One event for every session, one commit, one sync."""
        self._number += 1
        digest = "0" * 64
        self.db.execute("begin immediate")
        for uid in self._uids:
            row = (uid, self._number, "note", "bench", self._number, None, uid, body, uid, digest, digest)
            self.db.execute(self._sql["event.insert"], dict(zip(Event.columns(), row, strict=True)))
            self.db.execute(
                self._sql["session.advance"],
                {"uid": uid, "cursor": self._number, "chain": digest, "now": self._number},
            )
        self.db.execute("commit")

    def close(self) -> None:
        self.db.close()


class RawGroupCommit:
    """The least that many tasks need to share a sync: a queue, a thread, and a future for each row."""

    def __init__(self, raw: RawSQLite) -> None:
        self._raw = raw
        self._queue: queue.SimpleQueue[tuple[str, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    async def insert(self, body: str) -> None:
        done = self._loop.create_future()
        self._queue.put((body, done))
        await done

    def _serve(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = [first]
            while not self._queue.empty() and (another := self._queue.get()) is not None:
                batch.append(another)
            self._raw.group([body for body, _ in batch])
            self._loop.call_soon_threadsafe(_all_done, [done for _, done in batch])

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()


def _all_done(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)


class RawPostgres:
    """psycopg, one connection per thread, every insert its own transaction."""

    def __init__(self, url: str, connections: int) -> None:
        self.connections = [psycopg.connect(url, autocommit=True) for _ in range(connections)]
        self.connections[0].execute(
            "create table line (number bigint generated always as identity primary key, body text not null)"
        )

    def insert(self, body: str) -> None:
        """One insert, one commit, one sync."""
        self.connections[0].execute(INSERT_POSTGRES, (body,))

    def rate(self, each: int, body: Callable[[int], str]) -> float:
        """Inserts per second when every connection makes `each` of them, in a thread of its own."""

        def work(db: psycopg.Connection[tuple[object, ...]]) -> None:
            for number in range(each):
                db.execute(INSERT_POSTGRES, (body(number),))

        threads = [threading.Thread(target=work, args=(db,)) for db in self.connections]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(threads) * each / (time.perf_counter() - began)

    def close(self) -> None:
        for db in self.connections:
            db.close()
