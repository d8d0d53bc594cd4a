"""Which records caused the error that ended a program: a retry of the session repeats them, and nothing else."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from perdure.errors import PerdureError

MOST = 100  # errors of one chain that are read
_BASE = BaseException.__dict__
NAMES: tuple[tuple[str, str, type], ...] = (("steps", "step", int), ("effects", "effect", str), ("waits", "wait", str))
HANDLED: tuple[tuple[str, str, type], ...] = (("handled", "wait", str),)


def cause_of(error: BaseException) -> dict[str, list[Any]]:
    """The failed steps (event numbers), effects (ids) and waits for children (ids) in the chain of an error.

    The chain is the error, its cause, and the members of a group. What was only being handled when it was raised was
    caught, and the handler may have acted instead: of that, waits are named as `handled`. Nothing here raises, whatever
    the program raised.
    """
    found: dict[str, list[Any]] = {}
    ways, seen = [(error, False)], set[int]()
    while ways and len(seen) < MOST:
        one, is_handled = ways.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if issubclass(type(one), PerdureError):
            with suppress(Exception):  # a program's own class may raise here
                _add(found, one.details, HANDLED if is_handled else NAMES)  # type: ignore[attr-defined]
        if (handled := _BASE["__context__"].__get__(one)) is not None:
            ways.append((handled, True))
        if (cause := _BASE["__cause__"].__get__(one)) is not None:
            ways.append((cause, is_handled))  # it is read first
        if issubclass(type(one), BaseExceptionGroup):
            ways += [(member, is_handled) for member in BaseExceptionGroup.exceptions.__get__(one)[:MOST]]
    return found


def _add(found: dict[str, list[Any]], details: Any, names: tuple[tuple[str, str, type], ...]) -> None:
    if not isinstance(details, dict):
        return
    for name, kind, shape in names:
        value = details.get(kind)
        if type(value) is shape and value not in found.get(name, ()):
            found.setdefault(name, []).append(value)
