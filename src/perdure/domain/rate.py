"""Rates: how many runs of a queue may begin in each period (the generic cell rate algorithm).

One time is stored: when the rate is used up to. Each run uses up one interval. A tenth of the count may begin together,
and the interval is a little longer for that, so that no period, wherever it begins, contains more runs than the count.
"""

from __future__ import annotations


def _parameters(count: int, period: int) -> tuple[int, int]:
    """The interval that each run uses up, and how many may begin together."""
    together = max(1, count // 10)
    return max(1, -(-period // (count - together + 1))), together


def free_in_rate(count: int, period: int, used_to: int | None, now: int) -> tuple[int, int]:
    """How many runs may begin now, and when one more may."""
    interval, together = _parameters(count, period)
    begin = _begin(period, used_to, now)
    free = max(0, (now + interval * together - begin) // interval)
    return free, begin - interval * (together - free - 1)


def used_up_to(count: int, period: int, used_to: int | None, now: int, taken: int) -> int:
    """When the rate is used up to after so many runs began now."""
    interval, _ = _parameters(count, period)
    return _begin(period, used_to, now) + interval * taken


def _begin(period: int, used_to: int | None, now: int) -> int:
    """When the rate is used up to, at most one period from now: the clock may have been set back."""
    return min(max(used_to or 0, now), now + period)
