"""Figures of counts: k of n with a Wilson interval. Ratios of measurements are in `measurement`."""

from __future__ import annotations

import math

import msgspec

Z = 1.959963984540054  # of 95 %, two-sided


class Share(msgspec.Struct, frozen=True):
    """`k` of `n` trials."""

    k: int
    n: int

    @property
    def interval(self) -> tuple[float, float]:
        """The Wilson interval of 95 %. Of no trials: everything is possible."""
        return wilson(self.k, self.n)

    def __str__(self) -> str:
        """`3/40 (2.6-19.9 %)`; where it never happened `0/40 (≤ 7.5 %)`, which is three divided by the trials."""
        if self.n == 0:
            return "0/0"
        if self.k == 0:
            return f"0/{self.n} (≤ {min(100.0, 300 / self.n):.1f} %)"
        low, high = self.interval
        return f"{self.k}/{self.n} ({100 * low:.1f}–{100 * high:.1f} %)"


def wilson(k: int, n: int, z: float = Z) -> tuple[float, float]:
    """The Wilson score interval of a share of `k` in `n`."""
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is not a share")
    if n == 0:
        return 0.0, 1.0
    share, square = k / n, z * z
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = z / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return (0.0 if k == 0 else low), (1.0 if k == n else high)
