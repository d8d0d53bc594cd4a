"""Text from a provider: made storable, and arguments parsed as JSON or kept as text.

A model's answer may contain anything. Nothing here raises: text that cannot be parsed is passed on as it is, and the
model is told that its arguments are invalid.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

DEEPEST = 64  # levels of nesting that are accepted in arguments

_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Join surrogate halves that arrived separately, and replace those that stayed alone."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def one_line(text: str, most: int = 300) -> str:
    """A foreign text, short enough to be part of a sentence."""
    text = " ".join(clean(text).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def read_arguments(text: str, *, whole: bool = True) -> dict[str, Any] | str:
    """The JSON object in the text, or the text itself. No text means no arguments, unless the answer was cut off."""
    if not text.strip():
        return {} if whole else ""
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        return _cleaned(value, DEEPEST) if isinstance(value, dict) else clean(text)
    except (ValueError, RecursionError):
        return clean(text)


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _cleaned(value: Any, levels: int) -> Any:
    if levels == 0:
        raise ValueError("too deep")
    if isinstance(value, dict):
        return {clean(key): _cleaned(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item, levels - 1) for item in value]
    return clean(value) if isinstance(value, str) else value
