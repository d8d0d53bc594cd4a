"""Stalled connections: a time limit of the client, for a peer that acknowledges packets but does not answer.

The kernel detects a peer that is gone. It does not detect a proxy that was stopped, or a machine whose network works
and whose programs do not: for those the client needs a time limit of its own. Closing the socket makes the statement
fail like any lost connection (`connection`).
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Hashable
from contextlib import suppress

STALL_LIMIT = 45.0  # seconds; longer than the server lets any statement take


class LastPatience:
    """The time of the monotonic clock after which a process that ends waits for no server that is away."""

    def __init__(self) -> None:
        self._until = math.inf

    @property
    def is_limited(self) -> bool:
        return self._until < math.inf

    def limit(self, seconds: float) -> None:
        self._until = min(self._until, time.monotonic() + seconds)

    def is_over(self, until: float = math.inf) -> bool:
        """Whether this time has come, or the other one until which there is patience."""
        return time.monotonic() > min(until, self._until)


class StallWatch:
    """Closes connections that are silent for too long while a statement waits for its answer."""

    def __init__(self, silence: float) -> None:
        self._silence = silence
        self._lines: dict[Hashable, tuple[float, socket.socket]] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def expect(self, who: Hashable, line: socket.socket) -> None:
        """Expect an answer from now on."""
        with self._lock:
            self._lines[who] = (time.monotonic() + self._silence, line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._listen, name="perdure-silence", daemon=True)
                self._thread.start()

    def limit(self, silence: float) -> None:
        """Wait no longer than this from now on, also for what is expected already."""
        with self._lock:
            self._silence = min(self._silence, silence)
            until = time.monotonic() + self._silence
            self._lines = {who: (min(before, until), line) for who, (before, line) in self._lines.items()}

    def forget(self, who: Hashable) -> None:
        with self._lock:
            self._lines.pop(who, None)

    def _listen(self) -> None:
        while not self._closed.wait(min(1.0, self._silence / 4)):
            with self._lock:
                overdue = [line for until, line in self._lines.values() if time.monotonic() > until]
                for line in overdue:
                    with suppress(OSError):
                        line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
