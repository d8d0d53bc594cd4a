"""Time, in microseconds, passed as an argument.

A store has one clock. Its time is passed into every move, so that no code below the store reads a clock. There are two
times that are never mixed: `now` is the store's time, which other processes and people see; `boot` is not affected by
clock changes and suspends, and is used for deadlines on this machine.
"""

from __future__ import annotations

import time
from typing import Protocol

SECOND = 1_000_000
QUICK = SECOND // 2  # an answer within this time gives the server's time
REFRESH = 60 * SECOND
SOON = 2 * SECOND


def format_time(microseconds: int) -> str:
    """A time for people: in UTC to the second."""
    try:
        then = time.gmtime(microseconds // SECOND)
    except (OverflowError, OSError):
        return f"{microseconds} µs"
    if not 1 <= then.tm_year <= 9999:
        return f"{microseconds} µs"
    return f"{then.tm_year}-{then.tm_mon:02}-{then.tm_mday:02} {then.tm_hour:02}:{then.tm_min:02}:{then.tm_sec:02}Z"


def span(microseconds: int) -> str:
    """How long, in its two largest units: `12s`, `3m`, `2h 5m`, `4d 3h`."""
    seconds = max(0, microseconds) // SECOND
    if seconds < 60:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 60:
        return f"{minutes}m"
    if hours < 24:
        return f"{hours}h {minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{days}d {hours % 24}h" if hours % 24 else f"{days}d"


def brief_span(microseconds: int) -> str:
    """How long, also below a second: `340ms`, `2.1s`, `48s`, `3m`."""
    if microseconds < SECOND:
        return f"{max(0, microseconds) // 1000}ms"
    if microseconds < 10 * SECOND:
        return f"{microseconds / SECOND:.1f}s"
    return span(microseconds)


class Clock(Protocol):
    """The clock of a store."""

    def now(self) -> int:
        """The store's time, microseconds since 1970."""
        ...

    def boot(self) -> int:
        """Microseconds since this machine started; never set back."""
        ...


class SystemClock:
    """The clocks of this machine, for a store on one machine."""

    def now(self) -> int:
        return time.time_ns() // 1000

    def boot(self) -> int:
        return boot_time()


class ServerClock:
    """A database server's time, from this machine's boot clock and a measured offset.

    Workers on many machines then agree about leases as well as their round trips allow, and a step of the local
    wall clock has no effect.
    """

    def __init__(self) -> None:
        self._offset = SystemClock().now() - boot_time()
        self.measure_after = 0

    def now(self) -> int:
        return boot_time() + self._offset

    def boot(self) -> int:
        return boot_time()

    def is_due(self) -> bool:
        """Whether it is time to measure again."""
        return boot_time() >= self.measure_after

    def measured(self, *, asked: int, server: int, answered: int) -> None:
        """Add a measurement: the server read its clock between the request and the answer.

        A quick answer gives the offset: the middle of that time. After a slow one (a stalled network, a suspended
        machine) the offset is corrected only as far as it cannot have been right, and measured again soon.
        """
        lowest, highest = server - answered, server - asked
        if answered - asked <= QUICK:
            self._offset = (lowest + highest) // 2
            self.measure_after = answered + REFRESH
        else:
            self._offset = min(max(self._offset, lowest), highest)
            self.measure_after = answered + SOON


def boot_time() -> int:
    return time.clock_gettime_ns(_BOOT) // 1000


_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
