"""A row of numbers as small bars, for a cell of a table; a table beside it has the same numbers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

BAR = 4
GAP = 1
HEIGHT = 20


class SparkBar(msgspec.Struct, frozen=True):
    """One bar, from its upper left corner."""

    x: int
    y: float
    height: float


class Sparkline(msgspec.Struct, frozen=True):
    """All bars; a number that is not zero is always seen."""

    bars: list[SparkBar]
    width: int
    height: int = HEIGHT
    bar: int = BAR


def sparkline(numbers: Sequence[int]) -> Sparkline:
    most = max(numbers, default=0) or 1
    heights = [round(max(HEIGHT * one / most, 1.5 if one else 0), 1) for one in numbers]
    bars = [SparkBar(nth * (BAR + GAP), round(HEIGHT - tall, 1), tall) for nth, tall in enumerate(heights)]
    return Sparkline(bars, max(len(bars) * (BAR + GAP) - GAP, 0))
