"""How often callers may ask, in each process.

caller    so many requests a minute of one principal, counted after authentication: all its tokens are one. Beyond
          them, credentials that were valid here lately are refused without asking the store
address   so many failed authentications a minute from one client address. Beyond them, credentials that have not been
          valid here lately are refused without asking the store; callers that are known continue
"""

from __future__ import annotations

from collections import OrderedDict

from perdure.clock import SECOND, Clock
from perdure.domain.caller import Caller
from perdure.errors import TooManyRequests
from perdure.server.requests.credentials import Credentials
from perdure.server.settings import ServerSettings

REMEMBERED = 10_000  # callers, addresses, and credentials


class RatePerMinute:
    """So many a minute for each name, and as many at once."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self.most = float(per_minute)
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._left)

    def wait(self, who: str) -> int:
        """In how many seconds the next one is allowed; 0: now."""
        return self._wait(self._now(who)[0])

    def _wait(self, left: float) -> int:
        return 0 if left >= 1 else max(1, round((1 - left) * 60 / self.most))

    def count(self, who: str) -> int:
        """Count one more; returns what `wait` would have."""
        left, now = self._now(who)
        self._left[who] = (max(left - 1, 0.0), now)
        self._left.move_to_end(who)
        if len(self._left) > REMEMBERED:
            self._left.popitem(last=False)
        return self._wait(left)

    def _now(self, who: str) -> tuple[float, int]:
        now = self._clock.boot()
        left, at = self._left.get(who, (self.most, now))
        return min(self.most, left + (now - at) / SECOND * self.most / 60), now


class CallerRates:
    """Counts requests of callers, and failures of addresses."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        self.callers = RatePerMinute(settings.requests_per_minute, clock)
        self._failures = RatePerMinute(settings.failures_per_minute, clock)
        self._valid: OrderedDict[str, str] = OrderedDict()  # callers by their credentials that were valid, latest last

    def check(self, given: Credentials) -> None:
        """Refuse a caller that asks too often, and unknown credentials from an address that has failed too often."""
        known = self._valid.get(given.key)
        if known is not None:
            if self.callers.wait(known):
                self._count(known)
        elif wait := self._failures.wait(given.address):
            raise TooManyRequests(
                f"More than {self._failures.most:g} requests a minute from this address had no valid token.",
                retry_after=wait,
            )

    def count_failure(self, given: Credentials) -> None:
        """The credentials of a request are missing or wrong."""
        self._valid.pop(given.key, None)
        self._failures.count(given.address)

    def count(self, given: Credentials, caller: Caller) -> None:
        """Count a request of an authenticated caller; refuses one too many."""
        self._valid[given.key] = caller.key
        self._valid.move_to_end(given.key)
        if len(self._valid) > REMEMBERED:
            self._valid.popitem(last=False)
        self._count(caller.key)

    def _count(self, who: str) -> None:
        if wait := self.callers.count(who):
            raise TooManyRequests(f"More than {self.callers.most:g} requests came in a minute.", retry_after=wait)
