"""Wake-ups: how a reader learns that something changed, in this process or another.

A wake-up is only a hint: the reader reads again. A missed one costs a slow poll, and never blocks a reader. Within a
process, commits name the sessions they changed. Across processes, PostgreSQL sends notifications, many commits in one;
on SQLite a counter in the file's header is compared while a reader waits.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any

from perdure.store.statements import load

if TYPE_CHECKING:
    import apsw
    import psycopg

logger = logging.getLogger(__name__)
SLOW_POLL = 5.0
TICK = 0.025
CHANNEL = "perdure"


class Wakeups:
    """The waiting readers of one process. `start` begins to listen to other processes when the first reader waits."""

    def __init__(self, start: Callable[[Wakeups], threading.Thread] | None = None, *, patience: float = 0.0) -> None:
        """`patience` is how many seconds `close` waits for the listener: a file is closed with its last reader."""
        self.version = 0
        self._start = start
        self._patience = patience
        self._listening: threading.Thread | None = None
        self._lock = threading.Lock()
        self._waiters: dict[asyncio.Future[None], tuple[str | None, asyncio.AbstractEventLoop]] = {}
        self.closed = threading.Event()
        self.has_waiters = threading.Event()

    def bump(self, uids: Iterable[str] | None = None) -> None:
        """Report a change: in these sessions, or (None) anywhere."""
        touched = None if uids is None else frozenset(uids)
        with self._lock:
            self.version += 1
            woken = [
                (future, loop)
                for future, (uid, loop) in self._waiters.items()
                if touched is None or uid is None or uid in touched
            ]
        for future, loop in woken:
            try:
                loop.call_soon_threadsafe(_wake, future)
            except RuntimeError:  # that loop is closed, and its waiter with it
                continue

    async def wait(self, seen: int, uid: str | None = None, timeout: float = SLOW_POLL) -> None:
        """Return when something changed since `version` was `seen`, or after the timeout."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if self.version != seen:
                return
            self._waiters[future] = (uid, loop)
            start, self._start = self._start, None
        if start is not None:
            self._listening = start(self)
        self.has_waiters.set()
        try:
            async with asyncio.timeout(timeout):  # wait_for may lose a cancellation that comes with the wake-up
                await future
        except TimeoutError:
            return
        finally:
            with self._lock:
                self._waiters.pop(future, None)
                if not self._waiters and not self.closed.is_set():
                    self.has_waiters.clear()

    def close(self) -> None:
        with self._lock:
            self.closed.set()
            self.has_waiters.set()
        self.bump()
        if self._listening is not None:
            self._listening.join(self._patience)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def watch_file(connect: Callable[[], apsw.Connection]) -> Callable[[Wakeups], threading.Thread]:
    """Compare the file's change counter while a reader waits."""

    def compare(wakeups: Wakeups, db: apsw.Connection) -> None:
        seen = db.pragma("data_version")  # not `data_version()`, which is only what this connection last read
        wakeups.bump()
        while not wakeups.closed.is_set():
            wakeups.has_waiters.wait()
            if (now := db.pragma("data_version")) != seen:
                seen = now
                wakeups.bump()
            wakeups.closed.wait(TICK)

    def watch(wakeups: Wakeups) -> None:
        while not wakeups.closed.is_set():
            try:
                with closing(connect()) as db:
                    compare(wakeups, db)
            except Exception:  # waiters fall back to the slow poll until the file can be read again
                logger.warning("Changes by other processes cannot be watched just now.", exc_info=True)
                wakeups.closed.wait(1.0)

    return lambda wakeups: _begin(watch, wakeups, "perdure-watch")


def listen(connect: Callable[[], psycopg.Connection[Any]]) -> Callable[[Wakeups], threading.Thread]:
    """Listen for notifications of other processes, and report one change after every reconnect."""

    def watch(wakeups: Wakeups) -> None:
        while not wakeups.closed.is_set():
            try:
                with connect() as db:
                    db.execute(f"LISTEN {CHANNEL}")
                    wakeups.bump()
                    while not wakeups.closed.is_set():
                        for notice in db.notifies(timeout=1.0, stop_after=1):
                            wakeups.bump(notice.payload.split(",") if notice.payload else None)
            except Exception as error:  # the server is away: waiters fall back to the slow poll until it is back
                logger.warning("The connection for notifications was lost (%s).", type(error).__name__)
                wakeups.closed.wait(1.0)

    return lambda wakeups: _begin(watch, wakeups, "perdure-listen")


def _begin(watch: Callable[[Wakeups], None], wakeups: Wakeups, name: str) -> threading.Thread:
    thread = threading.Thread(target=watch, args=(wakeups,), name=name, daemon=True)
    thread.start()
    return thread


class Notifier:
    """Notifies other processes of changed sessions: one notification at a time, for many commits."""

    MOST = 200

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], pause: float = 0.01) -> None:
        self._connect = connect
        self._pause = pause
        self._pending: set[str] = set()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def notify(self, uids: Iterable[str]) -> None:
        with self._lock:
            self._pending.update(uids)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="perdure-notify", daemon=True)
                self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        db: psycopg.Connection[Any] | None = None
        while True:
            if not self._closed.is_set():
                self._wake.wait()
                self._closed.wait(self._pause)
            self._wake.clear()
            last = self._closed.is_set()  # read after the clear: a later close sets it again
            with self._lock:
                uids, self._pending = self._pending, set()
            if uids:
                db = self._send(db, ",".join(uids) if len(uids) <= self.MOST else "")
            if last:
                break
        if db is not None:
            db.close()

    def _send(self, db: psycopg.Connection[Any] | None, payload: str) -> psycopg.Connection[Any] | None:
        try:
            db = db or self._connect()
            db.execute(load("postgres")["meta.notify"], {"channel": CHANNEL, "payload": payload})
        except Exception as error:  # a lost hint: readers also poll slowly
            logger.info("A notification to other processes was lost (%s).", type(error).__name__)
            return None
        return db

    def close(self) -> None:
        self._closed.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(5.0)  # a stalled server may block it; a hint is not worth waiting for
