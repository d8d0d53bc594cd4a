"""Threads that each own one connection and serve tickets from one queue.

This is the connection pool: each connection belongs to one thread, so no state leaks between users, and nothing is
checked out and in. Threads start when they are needed, up to a limit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from perdure import process
from perdure.store.writer.queue import TicketQueue
from perdure.store.writer.ticket import Ticket, answer

C = TypeVar("C", bound="Closable")


class Closable(Protocol):
    def close(self) -> None: ...


class Threads(Generic[C]):
    """Serve tickets with up to `most` threads. `serve` sets the result of a ticket; it must not raise."""

    def __init__(self, name: str, most: int, connect: Callable[[], C], serve: Callable[[C, Ticket[Any]], None]) -> None:
        self._name = name
        self._most = most
        self._connect = connect
        self._serve = serve
        self._queue = TicketQueue(self._start_thread)
        self._unserved = 0
        self._threads: list[threading.Thread] = []

    def submit(self, ticket: Ticket[Any]) -> None:
        self._queue.put(ticket)

    def _start_thread(self) -> None:
        """Start another thread if there are more tickets than threads; called under the lock of the queue."""
        self._unserved += 1
        if len(self._threads) < min(self._unserved, self._most):
            thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Finish what is queued, then stop."""
        self._queue.close(self._threads)

    def _work(self) -> None:
        connection: C | None = None
        born = process.generation
        while (ticket := self._queue.get()) is not None:
            try:
                connection = connection or self._connect()
            except BaseException as error:  # for the caller of this ticket; the next one may succeed
                ticket.error = error
            else:
                self._serve(connection, ticket)
            with self._queue.lock:
                self._unserved -= 1
            answer([ticket])
            process.check(born)  # in a child that a move forked, the thread ends here; the parent continues
        if connection is not None:
            connection.close()
