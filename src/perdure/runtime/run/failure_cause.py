"""Which records caused the error that ended a program: a retry of the session repeats them, and nothing else."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from perdure.errors import PerdureError

MOST = 100  # errors of one chain that are read
_BASE = BaseException.__dict__


def cause_of(error: BaseException) -> dict[str, list[Any]]:
    """The failed steps (event numbers), effects (ids) and waits for children (ids) in the chain of an error.

    The chain is what Python prints: the error, its cause, what was being handled when it was raised, and the members
    of a group. Nothing here raises, whatever the program raised.
    """
    found: dict[str, list[Any]] = {}
    ways, seen = [error], set[int]()
    while ways and len(seen) < MOST:
        one = ways.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if issubclass(type(one), PerdureError):
            with suppress(Exception):  # a program's own class may raise here
                _add(found, one.details)  # type: ignore[attr-defined]
        ways += [other for name in ("__cause__", "__context__") if (other := _BASE[name].__get__(one)) is not None]
        if issubclass(type(one), BaseExceptionGroup):
            ways += BaseExceptionGroup.exceptions.__get__(one)[:MOST]
    return found


def _add(found: dict[str, list[Any]], details: Any) -> None:
    if not isinstance(details, dict):
        return
    for name, kind, shape in (("steps", "step", int), ("effects", "effect", str), ("waits", "wait", str)):
        value = details.get(kind)
        if type(value) is shape and value not in found.get(name, ()):
            found.setdefault(name, []).append(value)
