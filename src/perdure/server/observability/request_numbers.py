"""How many requests this process has answered, by operation and status, and how long they took. Streams count with the
time for which they were open."""

from __future__ import annotations


class RequestNumbers:
    """The numbers since the process began."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self.seconds: dict[tuple[str, str], float] = {}

    def add(self, operation: str, status: str, seconds: float) -> None:
        key = (operation, status)
        self.counts[key] = self.counts.get(key, 0) + 1
        self.seconds[key] = self.seconds.get(key, 0.0) + seconds
