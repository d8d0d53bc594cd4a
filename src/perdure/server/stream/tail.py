"""One tail of a session, fanned out to many subscribers.

A subscriber joins the tail first, then reads its history from the store up to the event where the tail was, and
continues with what the tail gave it meanwhile. Each line has its number, so nothing is missing and nothing comes twice.

The queue of a subscriber is bounded. One that does not keep up loses its queue and reads the store again from where it
is; only a client that takes nothing at all is dropped (`response`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import NamedTuple

import msgspec

from perdure.domain.event import Event
from perdure.errors import PerdureError
from perdure.store.moves import event
from perdure.store.store import Store
from perdure.store.writer.wakeup import SLOW_POLL

logger = logging.getLogger(__name__)
LONGEST = 1000  # lines in the queue of a subscriber
LARGEST = 1 << 20  # bytes in it
PAGE = 200
PAUSE = 1.0  # seconds after the store did not answer


class EventLine(NamedTuple):
    """One event as it is sent."""

    number: int
    data: bytes


def as_line(one: Event) -> EventLine:
    return EventLine(one.number, b"id: %d\ndata: %s\n\n" % (one.number, msgspec.json.encode(one)))


class Subscriber:
    """The queue of one client of a tail."""

    def __init__(self) -> None:
        self._lines: list[EventLine] = []
        self._size = 0
        self._has_news = asyncio.Event()
        self.is_behind = False

    def offer(self, lines: list[EventLine]) -> None:
        """More lines came; what does not fit is read from the store later."""
        if self.is_behind:
            return
        self._lines += lines
        self._size += sum(len(one.data) for one in lines)
        if len(self._lines) > LONGEST or self._size > LARGEST:
            self.is_behind = True
            self._lines, self._size = [], 0
        self._has_news.set()

    def wake(self) -> None:
        self._has_news.set()

    def clear(self) -> None:
        self._lines, self._size, self.is_behind = [], 0, False

    async def take(self, patience: float) -> list[EventLine]:
        """What came since the last time; waits for it so many seconds."""
        if not self._lines and not self.is_behind:
            try:
                async with asyncio.timeout(patience):
                    await self._has_news.wait()
            except TimeoutError:
                pass
        self._has_news.clear()
        taken, self._lines, self._size = self._lines, [], 0
        return taken


class SessionTail:
    """Reads the log of one session, each event once for all subscribers."""

    def __init__(self, store: Store, uid: str, number: int) -> None:
        self._store = store
        self._uid = uid
        self.number = number
        self.subscribers: set[Subscriber] = set()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            seen = self._store.wakeups.version
            try:
                page = await self._store.read(event.after, self._uid, self.number, limit=PAGE)
            except PerdureError as error:
                logger.info("The events of session %s could not be read (%s).", self._uid, error)
                await asyncio.sleep(PAUSE)
                continue
            if page:
                lines = [as_line(one) for one in page]
                self.number = page[-1].number
                for one in list(self.subscribers):
                    one.offer(lines)
            else:
                await self._store.wakeups.wait(seen, self._uid, SLOW_POLL)

    def stop(self) -> None:
        self._task.cancel()


class Tails:
    """The tails of the sessions that clients follow here."""

    def __init__(self, store: Store, stopping: asyncio.Event) -> None:
        self._store = store
        self._stopping = stopping
        self._tails: dict[str, SessionTail] = {}
        self._watch: asyncio.Task[None] | None = None

    async def follow(self, uid: str, cursor: int, after: int, patience: float) -> AsyncGenerator[list[EventLine], None]:
        """The lines of a session after a number, without end; an empty list at least every `patience` seconds."""
        if self._watch is None:
            self._watch = asyncio.create_task(self._wake_at_the_end())
        tail = self._tails.get(uid)
        if tail is None:
            tail = self._tails[uid] = SessionTail(self._store, uid, cursor)
        subscriber = Subscriber()
        tail.subscribers.add(subscriber)
        try:
            number = after
            while True:
                subscriber.clear()
                until = tail.number  # what comes after it is in the queue from now on
                while number < until:
                    page = await self._store.read(event.after, uid, number, limit=PAGE)
                    number = page[-1].number if page else until
                    yield [as_line(one) for one in page]
                while not subscriber.is_behind:
                    lines = [one for one in await subscriber.take(patience) if one.number > number]
                    number = lines[-1].number if lines else number
                    yield lines
        finally:
            tail.subscribers.discard(subscriber)
            if not tail.subscribers and self._tails.get(uid) is tail:
                del self._tails[uid]
                tail.stop()

    async def _wake_at_the_end(self) -> None:
        await self._stopping.wait()
        for tail in self._tails.values():
            for one in tail.subscribers:
                one.wake()
