"""Describing values and errors that other people's code made. Nothing here raises, whatever it is given.

An exception may have a `code` that is a method, a `__str__` that raises, a message of a gigabyte or half a letter in
it. What it did to the outside world must be recorded all the same.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from perdure.ids import encode, storable

MESSAGE_LIMIT = 4000
NAME_LIMIT = 200


def short_text(value: Any, limit: int) -> str:
    """A value as text that every database can keep, and not longer than `limit`."""
    try:
        text = value if type(value) is str else str.__str__(str(value))
        return storable(text if len(text) <= limit else text[: limit - 1] + "…")
    except BaseException:
        return f"(a {type_name(value)} that cannot be shown)"


def short_repr(value: Any, limit: int) -> str:
    """A value as Python would show it, under the same conditions."""
    try:
        shown = repr(value)
    except BaseException:
        shown = f"(a {type_name(value)} that cannot be shown)"
    return short_text(shown, limit)


def type_name(value: Any) -> str:
    """The name of a value's type."""
    name = type.__dict__["__name__"].__get__(type(value))
    return storable(str(name))[:NAME_LIMIT]


def describe(error: BaseException) -> str:
    """An error as it is recorded."""
    return encode(description(error))


def description(error: BaseException) -> dict[str, Any]:
    """An error as JSON builtins: its type, its code if that is a word or a number, and its message."""
    return {"type": type_name(error), "code": _code(error), "message": short_text(error, MESSAGE_LIMIT)}


def summary(error: BaseException) -> str:
    """An error in one line."""
    return f"{type_name(error)}: {short_text(error, MESSAGE_LIMIT)}"


def _code(error: BaseException) -> str | int | None:
    """What the error calls itself; an attribute that is a method or anything else is none."""
    try:
        code = error.code  # type: ignore[attr-defined]
        code = code.value if issubclass(type(code), Enum) else code
        if issubclass(type(code), int) and type(code) is not bool:
            number = int.__index__(code)
            return number if -(2**53) < number < 2**53 else None
        return short_text(code, NAME_LIMIT) if issubclass(type(code), str) else None
    except BaseException:
        return None
