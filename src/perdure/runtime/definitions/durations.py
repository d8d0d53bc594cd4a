"""Durations as people write them: "20s", "24h", "500ms", or seconds as a number."""

from __future__ import annotations

import re

from perdure.clock import SECOND
from perdure.errors import ConfigError

_UNITS = {"ms": SECOND // 1000, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND, "d": 86400 * SECOND}
_LONGEST = 2**62  # microseconds; beyond it, no store can hold the time at which it ends
_TEXT = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\Z")


def microseconds(duration: str | float) -> int:
    """A duration in microseconds."""
    found = duration * SECOND if not isinstance(duration, str) else -1.0
    if isinstance(duration, str) and (match := _TEXT.match(duration.strip())):
        found = float(match[1]) * _UNITS[match[2]]
    if 0 <= found < _LONGEST:
        return int(found)
    raise ConfigError(f"{duration!r} is not a duration.", hint='Write "500ms", "20s", "15m", "24h" or "7d".')
