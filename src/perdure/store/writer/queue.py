"""The queue of tickets between the callers of a store and the threads that serve it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any

from perdure.errors import StoreUnavailable
from perdure.store.writer.ticket import Ticket


class TicketQueue:
    """Accepts tickets until it is closed; what was accepted is still served.

    `on_put` runs under `lock` before a ticket is queued.
    """

    def __init__(self, on_put: Callable[[], None] | None = None) -> None:
        self.lock = threading.Lock()
        self._on_put = on_put
        self._tickets: SimpleQueue[Ticket[Any] | None] = SimpleQueue()  # None: no more will come
        self._closed = False

    def put(self, ticket: Ticket[Any]) -> None:
        with self.lock:
            if self._closed:
                raise StoreUnavailable("This store has been closed.", hint="Open it again.")
            if self._on_put is not None:
                self._on_put()
            self._tickets.put(ticket)

    def get(self) -> Ticket[Any] | None:
        """The next ticket, waiting for one if there is none; None when no more will come."""
        if (ticket := self._tickets.get()) is None:
            self._tickets.put(None)  # for the next call, and for the other threads
        return ticket

    def is_empty(self) -> bool:
        return self._tickets.empty()

    def close(self, threads: Iterable[threading.Thread]) -> None:
        """Accept no more tickets, and wait until the threads have served those that are queued."""
        with self.lock:
            self._closed = True
            self._tickets.put(None)
        for thread in threads:
            thread.join()
