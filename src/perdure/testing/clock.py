"""A clock that stands still until it is told to move."""

from __future__ import annotations

from perdure.clock import SECOND


class ManualClock:
    """Both of a store's clocks, moved by hand."""

    def __init__(self, now: int = 1_700_000_000 * SECOND) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def boot(self) -> int:
        return self._now

    def advance(self, *, seconds: float = 0, hours: float = 0, days: float = 0) -> None:
        """Let time pass."""
        self._now += int((seconds + hours * 3600 + days * 86400) * SECOND)
