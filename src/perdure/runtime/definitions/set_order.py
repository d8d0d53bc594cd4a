"""The order of sets. JSON has no sets, and Python iterates them in another order in every process.

A set is stored as a sorted list, so that equal arguments have the same digest in every run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect as types

SCALARS = frozenset({type(None), bool, int, float, str, bytes})
_SETS = (set, frozenset)
_SCALARS_ONLY = SCALARS.issuperset  # most values hold no others, and this check runs in C
Write = Callable[[Any], Any]


def rank(plain: Any) -> tuple[int, float, str]:
    """Where a JSON value stands in a sorted set: numbers, then texts, then the rest by its JSON text."""
    if isinstance(plain, int | float):
        return (0, plain, "")
    if isinstance(plain, str):
        return (1, 0, plain)
    return (2, 0, msgspec.json.encode(plain, order="sorted").decode())


def sort_sets(value: Any, write: Write) -> Any:
    """The value with a sorted list in place of each set. `write` makes JSON values of an element."""
    kind = type(value)
    if kind in SCALARS:
        return value
    if issubclass(kind, _SETS):
        return sorted((write(sort_sets(item, write)) for item in value), key=rank)
    if issubclass(kind, dict):
        if _SCALARS_ONLY(map(type, value.values())):
            return value
        return {key: sort_sets(item, write) for key, item in value.items()}
    if issubclass(kind, list | tuple):  # a named tuple too: it is stored as a list
        if _SCALARS_ONLY(map(type, value)):
            return value
        return [sort_sets(item, write) for item in value]
    if names := _fields(kind):  # type: ignore[arg-type] # classes are hashable
        plain = write(value)
        for name, key in names:
            if isinstance(plain, list) or key in plain:
                plain[key] = sort_sets(getattr(value, name), write)
        return plain
    return value


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any], ...]:
    """The fields of a class that may hold sets, with the key that each is stored by.

    A struct that is stored as a list has positions, counted from the end: its tag, if it has one, comes first.
    """
    if not (issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind) or hasattr(kind, "__attrs_attrs__")):
        return ()
    try:
        info = types.type_info(kind)
    except Exception:  # an annotation may be anything; such a class is refused elsewhere
        return ()
    fields = getattr(info, "fields", ())
    in_list = isinstance(info, types.StructType) and info.array_like
    keys = range(-len(fields), 0) if in_list else [one.encode_name for one in fields]
    held = zip(fields, keys, strict=True)
    return tuple((one.name, key) for one, key in held if not isinstance(one.type, _WITHOUT_SETS))


_WITHOUT_SETS = (
    types.NoneType, types.BoolType, types.IntType, types.FloatType, types.StrType, types.BytesType,
    types.DateTimeType, types.DateType, types.TimeType, types.TimeDeltaType, types.UUIDType, types.DecimalType,
    types.EnumType, types.LiteralType,
)  # fmt: skip
