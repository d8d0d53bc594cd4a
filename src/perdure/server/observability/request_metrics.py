"""Metrics of the requests that this process has answered: how many, by operation and status, and how long they took.

A stream counts with the time for which it was open. Nothing is stored: a restart begins at zero.
"""

from __future__ import annotations


class RequestMetrics:
    """The counts and seconds since the process began."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self.seconds: dict[tuple[str, str], float] = {}

    def add(self, operation: str, status: str, seconds: float) -> None:
        key = (operation, status)
        self.counts[key] = self.counts.get(key, 0) + 1
        self.seconds[key] = self.seconds.get(key, 0.0) + seconds
