"""A number for each day as bars, drawn in percent of the width; the table below it has the same numbers.

day     in UTC; days without a number are drawn empty, and of a long time only the last days are
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

import msgspec

MOST = 90  # days
HEIGHT = 120
ROOM = 8


class DayBar(msgspec.Struct, frozen=True):
    """One day: its place and width in percent, its height in pixels."""

    day: str
    value: int
    x: float
    width: float
    height: float


class DayPlot(msgspec.Struct, frozen=True):
    """The bars of all days."""

    name: str
    bars: list[DayBar]
    most: int
    total: int
    is_cost: bool = False


def day_of(at: int | str) -> date | None:
    """The day of a time in microseconds, or of a day as text."""
    try:
        return date.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at / 1_000_000, UTC).date()
    except (ValueError, OverflowError, OSError):
        return None


def plot(name: str, found: Iterable[tuple[int | str, int]], *, is_cost: bool = False) -> DayPlot | None:
    """The sums of each day; None if there are none."""
    sums: dict[date, int] = {}
    for at, value in found:
        if (day := day_of(at)) is not None:
            sums[day] = sums.get(day, 0) + value
    if not sums or not any(sums.values()):
        return None
    last = max(sums)
    first = max(min(sums), last - timedelta(days=MOST - 1))
    days = [first + timedelta(days=nth) for nth in range((last - first).days + 1)]
    values = [sums.get(day, 0) for day in days]
    most, room = max(values) or 1, 100 / len(days)
    width = min(room * 0.8, 8)
    bars = [
        DayBar(
            day.isoformat(), value, round(room * nth + (room - width) / 2, 2), round(width, 2),
            round((HEIGHT - ROOM) * value / most, 1),
        )
        for nth, (day, value) in enumerate(zip(days, values, strict=True))
    ]  # fmt: skip
    return DayPlot(name, bars, most, sum(values), is_cost)
