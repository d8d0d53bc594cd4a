"""Integers beyond 2^53. Canonical JSON has no number for them, so they are stored as decimal text.

Only where an `int` is declared: there the text is read back as an integer. In a union with another type that is stored
as text, such as `int | str`, the two could not be told apart, and the number is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import inspect as types

LIMIT = 2**53
_TEXT = re.compile(r"-?[1-9][0-9]{15,}\Z")
_LISTS = (types.ListType, types.SetType, types.FrozenSetType, types.VarTupleType, types.CollectionType)
_OBJECTS = (types.StructType, types.DataclassType, types.TypedDictType)
_TEXTS = (
    types.StrType, types.BytesType, types.ByteArrayType, types.MemoryViewType, types.DecimalType, types.UUIDType,
    types.EnumType, types.LiteralType,
)  # fmt: skip
Change = Callable[[Any], Any]


def with_texts(plain: Any, info: types.Type) -> Any:
    """JSON values with decimal text in place of each wide integer that is declared as `int`."""
    return _changed(plain, info, _as_text)


def with_integers(plain: Any, info: types.Type) -> Any:
    """JSON values with integers in place of the texts that `with_texts` wrote."""
    return _changed(plain, info, _as_integer)


def with_texts_everywhere(plain: Any) -> Any:
    """The same without declared types; the value itself if it holds no wide integer."""
    if isinstance(plain, dict):
        made: Any = {key: with_texts_everywhere(item) for key, item in plain.items()}
        return made if any(made[key] is not item for key, item in plain.items()) else plain
    if isinstance(plain, list):
        made = [with_texts_everywhere(item) for item in plain]
        return made if any(new is not old for new, old in zip(made, plain, strict=True)) else plain
    return _as_text(plain)


def _as_text(plain: Any) -> Any:
    return str(plain) if type(plain) is int and not -LIMIT < plain < LIMIT else plain


def _as_integer(plain: Any) -> Any:
    if isinstance(plain, str) and _TEXT.match(plain) and not -LIMIT < (number := int(plain)) < LIMIT:
        return number
    return plain


def _changed(plain: Any, info: types.Type, change: Change) -> Any:
    if isinstance(info, types.IntType):
        return change(plain)
    if isinstance(info, types.Metadata):
        return _changed(plain, info.type, change)
    if isinstance(info, types.UnionType):
        fitting = [one for one in info.types if _fits(plain, one, info)]
        return _changed(plain, fitting[0], change) if len(fitting) == 1 else plain
    if isinstance(plain, list | tuple) and (parts := _items(info, len(plain))) is not None:
        return [_changed(item, part, change) for item, part in zip(plain, parts, strict=False)] + list(
            plain[len(parts) :]
        )
    if isinstance(plain, dict) and isinstance(info, types.DictType):
        return {key: _changed(item, info.value_type, change) for key, item in plain.items()}
    if isinstance(plain, dict) and isinstance(info, _OBJECTS):
        fields = {field.encode_name: field.type for field in info.fields}
        return {key: _changed(item, fields[key], change) if key in fields else item for key, item in plain.items()}
    return plain


def _items(info: types.Type, length: int) -> list[types.Type] | None:
    """The types of the items of a stored list; None if the type is not stored as a list."""
    if isinstance(info, _LISTS):
        return [info.item_type] * length
    if isinstance(info, types.TupleType):
        return list(info.item_types)
    if isinstance(info, types.NamedTupleType):
        return [field.type for field in info.fields]
    if isinstance(info, types.StructType) and info.array_like:
        tag: list[types.Type] = [] if info.tag is None else [types.AnyType()]
        return tag + [field.type for field in info.fields]
    return None


def _fits(plain: Any, member: types.Type, union: types.UnionType) -> bool:
    """Whether a JSON value can be of this member of a union. A text among other texts cannot be told apart."""
    if isinstance(plain, list | tuple):
        return _items(member, 0) is not None
    if isinstance(plain, dict):
        if isinstance(member, types.StructType) and member.tag is not None:
            return not member.array_like and plain.get(member.tag_field) == member.tag
        return isinstance(member, (types.DictType, *_OBJECTS))
    return isinstance(member, types.IntType) and not any(isinstance(one, _TEXTS) for one in union.types)
