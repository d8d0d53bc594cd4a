"""Descriptions of values and errors from user code. Nothing here raises, whatever it is given.

An exception may have a `code` that is a method, a `__str__` that raises, a message of a gigabyte, or half a character
in it. What it did to the outside world must be recorded all the same.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from enum import Enum
from typing import Any

from perdure.errors import PerdureError
from perdure.ids import encode, storable
from perdure.secrets.redaction import redact

MESSAGE_LIMIT = 4000
NAME_LIMIT = 200
TRACEBACK_LIMIT = 8000

_BASE = BaseException.__dict__


def short_text(value: Any, limit: int) -> str:
    """A value as text that every database can keep, not longer than `limit`, and without known secrets."""
    try:
        text = redact(value if type(value) is str else str.__str__(str(value)))  # before it is cut
        return storable(text if len(text) <= limit else text[: limit - 1] + "…")
    except BaseException:
        return f"(a {type_name(value)} that cannot be shown)"


def short_repr(value: Any, limit: int) -> str:
    """The `repr` of a value, under the same conditions."""
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


def program_error(error: BaseException, function: Callable[..., Any]) -> dict[str, Any]:
    """An error that ended a program, with the program's own line and a bounded traceback."""
    where = _line_of(error, function)
    if where is None and issubclass(type(error), PerdureError):  # ours, and not raised by a line of the program
        return description(error)
    return description(error) | {"where": where, "traceback": _traceback(error)}


def _line_of(error: BaseException, function: Callable[..., Any]) -> str | None:
    """The innermost line of the program's own file that the error passed through: `/path/app.py:12 in review`."""
    try:
        if function.__module__.startswith("perdure."):  # an agent has no line of its own
            return None
        file, found = inspect.unwrap(function).__code__.co_filename, None
        for frame, line in traceback.walk_tb(_BASE["__traceback__"].__get__(error)):
            if frame.f_code.co_filename == file:
                found = f"{file}:{line} in {frame.f_code.co_name}"
        return None if found is None else short_text(found, MESSAGE_LIMIT)
    except BaseException:
        return None


def _traceback(error: BaseException) -> str | None:
    """The end of the traceback: where it was raised is nearer to the cause than where it began."""
    try:
        lines = traceback.format_exception(type(error), error, _BASE["__traceback__"].__get__(error))
        text = redact("".join(lines))
    except BaseException:
        return None
    cut = text if len(text) <= TRACEBACK_LIMIT else "…" + text[-TRACEBACK_LIMIT:]
    return storable(cut)


def summary(error: BaseException) -> str:
    """An error as part of a sentence."""
    return f"{type_name(error)}: {short_text(error, MESSAGE_LIMIT)}"


def recorded_summary(error: dict[str, Any]) -> str:
    """The same for a recorded error."""
    message, where = error.get("message"), error.get("where")
    said = f"{error['type']}: {message}" if error.get("type") and message else str(message or error.get("type") or "")
    return f"{said} ({where})" if where else said


def _code(error: BaseException) -> str | int | None:
    """The code of an error; an attribute that is a method or of another type counts as none."""
    try:
        code = error.code  # type: ignore[attr-defined]
        code = code.value if issubclass(type(code), Enum) else code
        if issubclass(type(code), int) and type(code) is not bool:
            number = int.__index__(code)
            return number if -(2**53) < number < 2**53 else None
        return short_text(code, NAME_LIMIT) if issubclass(type(code), str) else None
    except BaseException:
        return None


class Causes:
    """The errors that ended the last programs in this process, so that `SessionFailed` can have them as its cause."""

    MOST = 8  # an error keeps the variables of its frames alive

    def __init__(self) -> None:
        self._errors: dict[str, BaseException] = {}

    def note(self, uid: str, error: BaseException) -> None:
        self._errors.pop(uid, None)
        self._errors[uid] = error
        while len(self._errors) > self.MOST:
            self._errors.pop(next(iter(self._errors)), None)

    def get(self, uid: str | None) -> BaseException | None:
        return None if uid is None else self._errors.get(uid)
