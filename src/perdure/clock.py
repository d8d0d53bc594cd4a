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
    from datetime import UTC, datetime, timedelta

    try:
        then = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    except OverflowError:
        return f"{microseconds} µs"
    return then.strftime("%Y-%m-%d %H:%M:%SZ")


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
