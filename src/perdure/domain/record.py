"""Records: frozen structs whose fields are the columns of their table, in the table's words.

A record never knows where it is stored; columns that hold JSON are named once and arrive decoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Self, TypeVar

import msgspec

from perdure.errors import IllegalMove
from perdure.ids import decode

State = TypeVar("State", bound=StrEnum)


class Record(msgspec.Struct, frozen=True, kw_only=False):
    """One row of one table."""

    json_columns: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        return cls.__struct_fields__

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Self:
        """Read a row that holds exactly this record's columns, in order."""
        values = list(row)
        for place, name in enumerate(cls.__struct_fields__):
            if name in cls.json_columns and values[place] is not None:
                values[place] = decode(values[place])
        return cls(*values)

    def to_dict(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)


def check_move(noun: str, moves: Mapping[State, frozenset[State]], old: State, new: State) -> None:
    """Refuse a move that the noun's table of legal moves does not list."""
    if new not in moves[old]:
        legal = ", ".join(sorted(moves[old])) or "nothing: it is final"
        raise IllegalMove(f"A {noun} that is {old} cannot become {new}; it may become {legal}.")
