"""Tickets: one move or read for the store's threads, and its answer.

The same ticket serves both interfaces: a coroutine awaits it, a thread waits for it. Answers to coroutines are
delivered in bulk, because waking an event loop costs more than a move.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from perdure.store.move import Move

T = TypeVar("T")


class Ticket(Generic[T]):
    """One move or read, and its result or error."""

    __slots__ = ("_future", "_unanswered", "error", "loop", "move", "result")

    def __init__(
        self, move: Move[T], loop: asyncio.AbstractEventLoop | None, future: asyncio.Future[T] | None = None
    ) -> None:
        self.move = move
        self.loop = loop
        self.result: T | None = None
        self.error: BaseException | None = None
        self._future: asyncio.Future[T] | None = None
        self._unanswered: threading.Lock | None = None
        if loop is not None:
            self._future = future or loop.create_future()
            if future is None and loop not in _outboxes:
                _outboxes[loop] = Outbox(loop)
        else:
            self._unanswered = threading.Lock()
            self._unanswered.acquire()  # until the answer is there; ten times cheaper than an event

    def wait(self) -> T:
        """Block this thread until the answer is there."""
        assert self._unanswered is not None
        self._unanswered.acquire()
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]

    @property
    def is_answered(self) -> bool:
        """Whether `wait` would return at once."""
        assert self._unanswered is not None
        return not self._unanswered.locked()

    async def outcome(self) -> T:
        """Await the answer. Cancelling the wait does not take the move back."""
        assert self._future is not None
        return await self._future

    def deliver(self) -> None:
        """Hand the answer over; runs in the waiter's event loop, or anywhere for a waiting thread."""
        if self._unanswered is not None:
            if self._unanswered.locked():
                self._unanswered.release()
        elif self._future is not None and not self._future.done():
            if self.error is not None:
                self._future.set_exception(self.error)
            else:
                self._future.set_result(self.result)  # type: ignore[arg-type]


class Outbox:
    """Answers for one event loop, which is woken once for all answers that arrive before it reads them.

    Made in that loop's thread. An `eventfd` wakes the loop where there is one; it costs half of `call_soon_threadsafe`.
    A loop does not tell when it is closed, so the `eventfd` of a closed one is closed when the next is made.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._answered: deque[Ticket[Any]] = deque()
        self._woken = False
        self._bell: int | None = None
        self._ringing = threading.Lock()  # never write to a number that is another file by now
        if hasattr(os, "eventfd"):
            close_bells_of_closed_loops()
            self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            weakref.finalize(loop, self.close_bell)
            try:
                loop.add_reader(self._bell, self._deliver)
            except NotImplementedError:
                self.close_bell()

    def put(self, ticket: Ticket[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._answered.append(ticket)
        if self._woken:
            return
        self._woken = True
        with self._ringing:
            if self._bell is not None:
                os.eventfd_write(self._bell, 1)
                return
        try:
            loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # the loop is closed: no coroutine waits any more
            self._answered.clear()

    def close_bell(self) -> None:
        with self._ringing:
            bell, self._bell = self._bell, None
        if bell is not None:
            os.close(bell)

    def _deliver(self) -> None:
        if self._bell is not None:
            with suppress(BlockingIOError):
                os.eventfd_read(self._bell)
        self._woken = False  # before reading: a later answer wakes the loop again
        while self._answered:
            self._answered.popleft().deliver()


_outboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Outbox] = WeakKeyDictionary()


def close_bells_of_closed_loops() -> None:
    """A closed loop may wait long for the garbage collector, and its `eventfd` with it."""
    with suppress(RuntimeError):  # another thread adds a loop: left to the next call
        for loop, outbox in list(_outboxes.items()):
            if loop.is_closed():
                outbox.close_bell()


def answer(tickets: Iterable[Ticket[Any]]) -> None:
    """Deliver answers: to a thread directly, to an event loop through its outbox."""
    for ticket in tickets:
        if ticket.loop is None:
            ticket.deliver()
        else:
            _outboxes[ticket.loop].put(ticket, ticket.loop)


def read_move(query: Callable[..., T], *args: Any, **kwargs: Any) -> Move[T]:
    """A read, in the form of a move that changes nothing."""
    move: Move[T] = Move("read", "read", lambda tx: query(tx, *args, **kwargs))
    return move.made_by(query, *args, **kwargs)
