"""Records: frozen structs whose fields are the columns of their table, in the table's words.

A record never knows where it is stored; columns that hold JSON are named once and arrive decoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

import msgspec

from perdure.errors import ConfigError, Damaged, IllegalMove
from perdure.ids import check_text, decode

State = TypeVar("State", bound=StrEnum)


class Record(msgspec.Struct, frozen=True, kw_only=False):
    """One row of one table."""

    json_columns: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        return cls.__struct_fields__

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Self:
        """Read a row that holds this record's columns, in order; an older schema may not have the last ones."""
        values = list(row)
        for place in _json_places(cls):
            if place < len(values) and values[place] is not None:
                try:
                    values[place] = decode(values[place])
                except (msgspec.DecodeError, TypeError, UnicodeError, RecursionError) as error:
                    name, noun = cls.__struct_fields__[place], cls.__name__.removesuffix("Record").lower()
                    raise Damaged(f"The {name} of {noun} {str(row[0])[:80]!r} is not JSON: {error}.") from None
        return cls(*values)

    def to_dict(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)


@cache
def _json_places(record: type[Record]) -> tuple[int, ...]:
    """Where in a row of this record the columns are that hold JSON."""
    return tuple(place for place, name in enumerate(record.__struct_fields__) if name in record.json_columns)


def same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON. `==` is not enough: to Python, True is 1."""
    return sorted_json(one) == sorted_json(other)


def sorted_json(value: Any) -> bytes:
    """The same bytes for the same JSON, whatever the order of its keys."""
    return msgspec.json.encode(value, order="sorted")


def check_columns(record: type[Record], changes: Mapping[str, Any], changeable: frozenset[str]) -> None:
    """Refuse a change of columns that do not exist or must not change, or to what they cannot hold."""
    noun = record.__name__.removesuffix("Record").lower()
    types = get_type_hints(record)
    for name, value in changes.items():
        if name not in changeable:
            raise ConfigError(f"A {noun} has no {name} to change; it has {', '.join(sorted(changeable))}.")
        try:
            msgspec.convert(value, types[name], strict=True)
        except msgspec.ValidationError as error:
            raise ConfigError(f"The {noun}'s {name} cannot be {value!r:.40}: {error}.") from None
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ConfigError(f"The {noun}'s {name} is too large.")
        if isinstance(value, str):
            check_text(f"The {noun}'s {name}", value)


def check_move(noun: str, moves: Mapping[State, frozenset[State]], old: State, new: State) -> None:
    """Refuse a move that the noun's table of legal moves does not list."""
    if new not in moves[old]:
        legal = ", ".join(sorted(moves[old])) or "nothing: it is final"
        raise IllegalMove(f"A {noun} that is {old} cannot become {new}; it may become {legal}.")
