"""Which declared types have a stored form. Others are refused where a function is declared, before it can act."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect as types

from perdure.runtime.definitions import foreign_types

PLAIN = (type(None), bool, int, float, str, list, dict)  # what JSON is read as
SIMPLE = frozenset({Any, *PLAIN})
KEYS = (
    types.AnyType, types.StrType, types.IntType, types.FloatType, types.BytesType, types.EnumType, types.LiteralType,
    types.DateTimeType, types.DateType, types.TimeType, types.TimeDeltaType, types.UUIDType, types.DecimalType,
)  # fmt: skip


def why_unstorable(type_: Any) -> str | None:
    """Why values of a declared type cannot be stored and read back; None if they can."""
    if isinstance(type_, type) and type_ in SIMPLE:
        return None
    try:
        info = types.type_info(type_)
        msgspec.json.Decoder(type_)
    except Exception as error:  # an annotation may be anything
        return str(error)
    for part in parts(info):
        if (why := _why_part_unstorable(part)) is not None:
            return why
    return None


def _why_part_unstorable(part: types.Type) -> str | None:
    if isinstance(part, types.CustomType):
        if foreign_types.is_foreign(part.cls):
            return foreign_types.why_unstorable(part.cls)
        if not _holds_plain(part.cls):
            return f"{part.cls.__module__}.{part.cls.__qualname__} has no stored form"
    if isinstance(part, types.DictType) and isinstance(part.key_type, types.CustomType):
        return f"{part.key_type.cls.__qualname__} cannot be a key"
    if isinstance(part, types.DictType):
        keys = part.key_type.types if isinstance(part.key_type, types.UnionType) else (part.key_type,)
        if any(not isinstance(one, KEYS) for one in keys):
            return "a key must be text, a number, an enum, a date, a UUID or bytes"
        kinds = {type(one) for one in keys}
        if types.IntType in kinds and len(kinds) > 1:
            return "a key that is an int or something else is stored as text, and the two cannot be told apart"
    return None


def parts(info: types.Type) -> Iterator[types.Type]:
    """A type and the types that it is made of."""
    return _parts(info, set())


def _parts(info: types.Type, seen: set[Any]) -> Iterator[types.Type]:
    yield info
    cls = getattr(info, "cls", None)
    if cls in seen:
        return
    if cls is not None:
        seen.add(cls)
    for field in getattr(info, "fields", ()):
        yield from _parts(field.type, seen)
    inner = [getattr(info, name, None) for name in ("item_type", "key_type", "value_type")]
    for part in (*inner, *getattr(info, "item_types", ()), *getattr(info, "types", ())):
        if isinstance(part, types.Type):
            yield from _parts(part, seen)


def _holds_plain(cls: type) -> bool:
    """Whether something that JSON is read as is an instance of it: so it is with `object` and with `Iterable`."""
    try:
        return any(issubclass(plain, cls) for plain in PLAIN)
    except TypeError:  # a protocol that cannot be asked
        return False
