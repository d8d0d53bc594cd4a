"""A clock that moves only when a test moves it."""

from __future__ import annotations

from perdure.clock import SECOND


class ManualClock:
    """Both of a store's clocks, moved by hand."""

    def __init__(self, now: int = 1_700_000_000 * SECOND) -> None:
        self._now = now
        self._set = 0

    def now(self) -> int:
        return self._now + self._set

    def boot(self) -> int:
        return self._now

    def advance(self, *, seconds: float = 0, hours: float = 0, days: float = 0) -> None:
        """Let time pass."""
        self._now += round((seconds + hours * 3600 + days * 86400) * SECOND)

    def set(self, *, seconds: float = 0, hours: float = 0) -> None:
        """Set the wall clock forward or back, as an administrator or NTP does; no time passes."""
        self._set += round((seconds + hours * 3600) * SECOND)
