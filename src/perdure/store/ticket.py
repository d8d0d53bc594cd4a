"""Tickets: one move or read on its way through the store's threads, and its answer on the way back.

The same ticket serves both shells: a coroutine awaits it, a thread waits for it. Answers to coroutines are delivered
in bulk, because waking an event loop costs more than a move.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from perdure.store.move import Move, Transaction

T = TypeVar("T")


class Ticket(Generic[T]):
    """A place in the queue."""

    __slots__ = ("_future", "_unanswered", "error", "loop", "move", "result")

    def __init__(self, move: Move[T], loop: asyncio.AbstractEventLoop | None) -> None:
        self.move = move
        self.loop = loop
        self.result: T | None = None
        self.error: BaseException | None = None
        self._future: asyncio.Future[T] | None = loop.create_future() if loop is not None else None
        self._unanswered = threading.Lock()
        self._unanswered.acquire()  # until the answer is there: a tenth of the price of an event

    def wait(self) -> T:
        """Block this thread until the answer is there."""
        self._unanswered.acquire()
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]

    async def outcome(self) -> T:
        """Await the answer. Cancelling the wait does not take the move back."""
        assert self._future is not None
        return await self._future

    def deliver(self) -> None:
        """Hand the answer over; runs in the waiter's event loop, or anywhere for a waiting thread."""
        if self._future is None:
            if self._unanswered.locked():
                self._unanswered.release()
        elif not self._future.done():
            if self.error is not None:
                self._future.set_exception(self.error)
            else:
                self._future.set_result(self.result)  # type: ignore[arg-type]


class Outbox:
    """Answers on their way to one event loop, which is woken once for all that come before it looks."""

    def __init__(self) -> None:
        self._answered: deque[Ticket[Any]] = deque()
        self._woken = False

    def put(self, ticket: Ticket[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._answered.append(ticket)
        if not self._woken:
            self._woken = True
            try:
                loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the loop is closed: nobody is left to hear it
                self._answered.clear()

    def _deliver(self) -> None:
        self._woken = False  # before it looks: an answer that comes later wakes it again
        while self._answered:
            self._answered.popleft().deliver()


_outboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Outbox] = WeakKeyDictionary()


def answer(tickets: Iterable[Ticket[Any]]) -> None:
    """Deliver answers: to a thread at once, to an event loop through its outbox."""
    for ticket in tickets:
        if ticket.loop is None:
            ticket.deliver()
        else:
            outbox = _outboxes.get(ticket.loop) or _outboxes.setdefault(ticket.loop, Outbox())
            outbox.put(ticket, ticket.loop)


def reading(query: Callable[[Transaction], T]) -> Move[T]:
    """A read, in the form of a move that changes nothing."""
    return Move("read", "read", query)
