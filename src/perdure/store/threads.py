"""Threads that each own one connection and serve tickets from one queue.

This is the pool: a connection never changes hands, so nothing of one user's can leak into another's, and there is no
checking out and in. Threads start when they are needed, up to a limit.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from perdure.errors import StoreUnavailable
from perdure.store.ticket import Ticket, answer

C = TypeVar("C", bound="Closable")


class Closable(Protocol):
    def close(self) -> None: ...


class Threads(Generic[C]):
    """Serve tickets with up to `most` threads. `serve` decides a ticket; it must not raise."""

    def __init__(self, name: str, most: int, connect: Callable[[], C], serve: Callable[[C, Ticket[Any]], None]) -> None:
        self._name = name
        self._most = most
        self._connect = connect
        self._serve = serve
        self._queue: deque[Ticket[Any]] = deque()
        self._wake = threading.Condition()
        self._idle = 0
        self._closed = False
        self._threads: list[threading.Thread] = []

    def submit(self, ticket: Ticket[Any]) -> None:
        with self._wake:
            if self._closed:
                raise StoreUnavailable("This store has been closed.", hint="Open it again.")
            self._queue.append(ticket)
            if self._idle >= len(self._queue):
                self._wake.notify()
            elif len(self._threads) < self._most:
                thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def close(self) -> None:
        """Finish what is queued, then stop."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        connection = self._connect()
        while (ticket := self._take()) is not None:
            self._serve(connection, ticket)
            answer([ticket])
        connection.close()

    def _take(self) -> Ticket[Any] | None:
        with self._wake:
            while not self._queue and not self._closed:
                self._idle += 1
                self._wake.wait()
                self._idle -= 1
            return self._queue.popleft() if self._queue else None
