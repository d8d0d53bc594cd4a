"""Wake-ups: how a reader learns that something changed, in this process or another.

A wake-up is only a hint: the reader reads again. A missed one costs a slow poll, and never blocks a reader or a commit.
Each names a topic: a session by its uid, a queue (a session of it became ready), or a service (its plan has changed).
A reader takes the `version`, reads, and waits with that version: a change in between is not missed.

How topics reach other processes is the matter of a transport: datagrams for SQLite (`datagrams`), notifications of the
server for PostgreSQL. A process receives only the topics that it has waited for. The first wait for a topic returns as
soon as the transport delivers it, so that the reader reads again what may have changed before.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterable
from typing import Protocol

from perdure.store.topics import ALL_QUEUES, queue_topics

SLOW_POLL = 5.0  # seconds: readers of a session
IDLE_POLL = 60.0  # seconds: workers and services
_ANY = "any"
_REMEMBERED = 4096  # topics whose last change is known
_KEPT = 128  # topics that are still delivered although no reader waits for them


class Transport(Protocol):
    """Carries topics between processes."""

    def listen(self, wakeups: Wakeups, topics: Collection[str]) -> None:
        """Deliver these topics from now on, and no others; bump those that were not delivered before."""

    def send(self, topics: Collection[str]) -> None:
        """Send topics of a commit to other processes. Never fails, never blocks."""

    def close(self) -> None: ...


class Wakeups:
    """The waiting readers of one process."""

    def __init__(self, transport: Transport | None = None) -> None:
        self.version = 0
        self.closed = threading.Event()
        self.has_waiters = threading.Event()
        self._transport = transport
        self._lock = threading.Lock()
        self._listening = threading.Lock()  # one change of the delivered topics at a time
        self._waiters: dict[str, dict[asyncio.Future[None], asyncio.AbstractEventLoop]] = {}
        self._changed: dict[str, int] = {}  # the version at which a topic last changed, the oldest first
        self._all_changed = 0  # the version before which every topic may have changed
        self._delivered: dict[str, None] = {}  # topics that the transport delivers, the least recently used first

    def announce(self, topics: Collection[str]) -> None:
        """Report the topics of a commit, to this process and to others."""
        self.bump(topics)
        if self._transport is not None:
            self._transport.send(topics)

    def bump(self, topics: Iterable[str] | None = None) -> None:
        """Report a change to the readers of this process: of these topics, or (None) of any."""
        with self._lock:
            self.version += 1
            if topics is None:
                self._all_changed = self.version
                self._changed.clear()
                names = list(self._waiters)
            else:
                names = [_ANY, *topics]
                for topic in names[1:]:
                    self._changed.pop(topic, None)
                    self._changed[topic] = self.version
                while len(self._changed) > _REMEMBERED:
                    self._all_changed = self._changed.pop(next(iter(self._changed)))
            woken = [item for name in names for item in self._waiters.get(name, {}).items()]
        for future, loop in woken:
            try:
                loop.call_soon_threadsafe(_wake, future)
            except RuntimeError:  # that loop is closed, and its waiter with it
                continue

    def has_changed(self, seen: int, topic: str) -> bool:
        """Whether a topic may have changed since `version` was `seen`."""
        with self._lock:
            return self._has_changed(seen, [topic])

    def _has_changed(self, seen: int, topics: Collection[str]) -> bool:
        if _ANY in topics:
            return self.version != seen
        return self._all_changed > seen or any(self._changed.get(topic, 0) > seen for topic in topics)

    async def wait(self, seen: int, uid: str | None = None, timeout: float = SLOW_POLL) -> None:
        """Return when a session changed since `version` was `seen`, or after the timeout.

        Without a uid: when anything changed that this process hears of.
        """
        await self.wait_topics(seen, [uid] if uid is not None else [_ANY, ALL_QUEUES], timeout)

    async def wait_queues(self, seen: int, queues: Collection[str] | None = None, timeout: float = IDLE_POLL) -> None:
        """Return when one of these queues (None: any queue) has new work, or after the timeout."""
        await self.wait_topics(seen, queue_topics(queues), timeout)

    async def wait_topics(self, seen: int, topics: Collection[str], timeout: float = IDLE_POLL) -> None:
        """Return when one of these topics changed since `version` was `seen`, or after the timeout."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if self.closed.is_set() or self._has_changed(seen, topics):
                return
            for topic in topics:
                self._waiters.setdefault(topic, {})[future] = loop
            self.has_waiters.set()
        try:
            self._deliver(topics)
            async with asyncio.timeout(timeout):  # wait_for may lose a cancellation that comes with the wake-up
                await future
        except TimeoutError:
            return
        finally:
            self._forget(future, topics)

    def _forget(self, future: asyncio.Future[None], topics: Collection[str]) -> None:
        with self._lock:
            for topic in topics:
                waiters = self._waiters.get(topic, {})
                waiters.pop(future, None)
                if not waiters:
                    self._waiters.pop(topic, None)
            if not self._waiters and not self.closed.is_set():
                self.has_waiters.clear()

    def _deliver(self, topics: Collection[str]) -> None:
        """Have the transport deliver these topics too, and no longer those that no reader has waited for lately."""
        if self._transport is None:
            return
        with self._listening:
            with self._lock:
                wanted = [topic for topic in topics if topic != _ANY]
                is_new = any(topic not in self._delivered for topic in wanted)
                for topic in wanted:
                    self._delivered.pop(topic, None)
                    self._delivered[topic] = None
                if not is_new:
                    return
                idle = [topic for topic in self._delivered if topic not in self._waiters]
                for topic in idle[: max(0, len(idle) - _KEPT)]:
                    del self._delivered[topic]
                delivered = tuple(self._delivered)
            self._transport.listen(self, delivered)

    def close(self) -> None:
        with self._lock:
            self.closed.set()
            self.has_waiters.set()
        self.bump()
        if self._transport is not None:
            with self._listening:
                self._transport.close()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
