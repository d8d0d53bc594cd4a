"""Stored text, values and times for a terminal: escaped, short, on one line.

The content of a session comes from programs, models and other people. A control character in it must never move the
cursor, set a title, reverse a line or hide text, so characters that are not visible are shown as escapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.clock import SECOND
from perdure.domain.text import visible
from perdure.secrets.mask import mask

LONGEST_KEY = 300  # characters
TEXT = 200  # characters of one stored text in a sentence
CUT = "more character"  # in the remark after a call that was cut


def safe(text: str, *, keep: str = "") -> str:
    """The text with invisible characters escaped, except those in `keep`, and with what looks like a secret masked."""
    return visible(mask(text), keep=keep)


def short(text: str, limit: int = TEXT) -> str:
    """The start of a text, on one line; an ellipsis shows that there is more."""
    shown = safe(text[: limit + LONGEST_KEY])  # a key that is cut would not be recognized
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def value(given: Any, limit: int = TEXT) -> str:
    """A value as short JSON; a string without quotes."""
    if isinstance(given, str):
        return short(given, limit)
    if isinstance(given, Mapping) and given.keys() == {":artifact"}:
        return f"… (large: artifact {str(given[':artifact'])[:12]})"
    from perdure.ids import encode

    return short(encode(given), limit)


def call(name: str, given: Any, limit: int = TEXT) -> str:
    """A call as people write it: `post_comment(pr=7, body="only style")`."""
    return f"{safe(name)}({arguments(given, limit)})"


def intent(name: str, given: Any, limit: int = TEXT) -> str:
    """A call that a person decides about: the number of characters that were cut is shown."""
    whole = whole_call(name, given)
    return whole if len(whole) <= limit else f"{whole[:limit]}… ({count(len(whole) - limit, CUT)})"


def whole_call(name: str, given: Any) -> str:
    """A call as people write it, of any length."""
    from perdure.ids import encode

    if not isinstance(given, Mapping) or given.keys() == {":artifact"}:
        return f"{safe(name)}({value(given)})"
    return safe(f"{name}({', '.join(f'{key}={encode(one)}' for key, one in given.items())})")


def arguments(given: Any, limit: int = TEXT) -> str:
    """Arguments as people write them: `pr=7, body="only style"`."""
    from perdure.ids import encode

    if not isinstance(given, Mapping) or given.keys() == {":artifact"}:
        return value(given, limit)
    return short(", ".join(f"{key}={encode(one)}" for key, one in given.items()), limit)


def error(given: Any) -> str:
    """A recorded error in one line."""
    if not isinstance(given, Mapping):
        return "no error is recorded" if given is None else value(given)
    kind, message = given.get("type"), given.get("message")
    text = f"{kind}: {message}" if kind and message else str(message or kind or given.get("code") or "no message")
    where = given.get("where")
    return short(text) if not where else f"{short(text)} ({short(str(where).rpartition('/')[2])})"


def elapsed(microseconds: int) -> str:
    """How long something has taken or will take, to the second: `12 s`, `2 min 5 s`, `1 h 3 min`."""
    seconds = max(0, microseconds) // SECOND
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def count(number: int, noun: str) -> str:
    """`1 effect`, `3 effects`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
