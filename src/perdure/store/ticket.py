"""Tickets: one move or read on its way through the store's threads, and its answer on the way back.

The same ticket serves both shells: a coroutine awaits it, a thread waits for it. Answers to coroutines are delivered
in bulk, one wake-up per event loop and group, because a wake-up costs more than a move.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from perdure.store.move import Move, Transaction

T = TypeVar("T")


class Ticket(Generic[T]):
    """A place in the queue."""

    __slots__ = ("_done", "_future", "error", "loop", "move", "result")

    def __init__(self, move: Move[T], loop: asyncio.AbstractEventLoop | None) -> None:
        self.move = move
        self.loop = loop
        self.result: T | None = None
        self.error: BaseException | None = None
        self._future: asyncio.Future[T] | None = loop.create_future() if loop is not None else None
        self._done: threading.Event | None = threading.Event() if loop is None else None

    def wait(self) -> T:
        """Block this thread until the answer is there."""
        assert self._done is not None
        self._done.wait()
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]

    async def outcome(self) -> T:
        """Await the answer. Cancelling the wait does not take the move back."""
        assert self._future is not None
        return await self._future

    def deliver(self) -> None:
        """Hand the answer over; runs in the waiter's event loop, or anywhere for a waiting thread."""
        if self._done is not None:
            self._done.set()
        elif self._future is not None and not self._future.done():
            if self.error is not None:
                self._future.set_exception(self.error)
            else:
                self._future.set_result(self.result)  # type: ignore[arg-type]


def answer(tickets: Iterable[Ticket[Any]]) -> None:
    """Deliver answers, waking each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Ticket[Any]]] = {}
    for ticket in tickets:
        if ticket.loop is None:
            ticket.deliver()
        else:
            by_loop.setdefault(ticket.loop, []).append(ticket)
    for loop, waiting in by_loop.items():
        try:
            loop.call_soon_threadsafe(_deliver_all, waiting)
        except RuntimeError:  # the loop is closed: nobody is left to hear it
            continue


def _deliver_all(tickets: list[Ticket[Any]]) -> None:
    for ticket in tickets:
        ticket.deliver()


def reading(query: Callable[[Transaction], T]) -> Move[T]:
    """A read, in the form of a move that changes nothing."""
    return Move("read", "read", query)
