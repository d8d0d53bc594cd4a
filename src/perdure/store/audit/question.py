"""A question of an audit, as data: its statement, its parameters, its columns, and the index that answers it.

A question never reads the body of an event that it does not show, and reads nothing of the history outside its range.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec

from perdure.clock import format_time
from perdure.ids import encode


class ColumnKind(StrEnum):
    """How a column is read and shown."""

    TEXT = "text"
    TIME = "time"  # microseconds since 1970
    DAY = "day"  # such as 2026-01-31, in UTC; stored as its first microsecond
    COUNT = "count"
    COST = "cost"  # millionths of a dollar
    LIST = "list"  # a JSON list of texts
    ERROR = "error"  # JSON: an error with its code and message
    BODY = "body"  # a part of the body of an event; null if it was erased
    JSON = "json"


class AuditColumn(msgspec.Struct, frozen=True):
    """A column of an answer. `keys` are those of an event's body, of which the first that it has is shown."""

    name: str
    kind: ColumnKind
    meaning: str
    keys: tuple[str, ...] = ()

    def text(self, value: Any) -> str:
        """A value as people read it; empty if there is none."""
        if value is None:
            return ""
        match self.kind:
            case ColumnKind.TIME:
                return format_time(value)
            case ColumnKind.COST:
                return f"${value / 1_000_000:.4f}"
            case ColumnKind.LIST if isinstance(value, list):
                return ", ".join(map(str, value))
            case ColumnKind.ERROR if isinstance(value, dict):
                return ": ".join(str(value[key]) for key in ("code", "message") if value.get(key) is not None)
        return value if isinstance(value, str) else encode(value)


class AuditParameter(msgspec.Struct, frozen=True):
    """What a question can be asked about. `find`: how a name becomes what is stored."""

    name: str
    meaning: str
    find: str = "text"  # or: session, effect, commit, target


class AuditPlan(msgspec.Struct, frozen=True):
    """A statement that answers a question if the parameters in `needs` are given, and the indexes that it uses.

    Its last columns are the `key` of a row. The rows after it are read with these parameters.
    """

    statement: str
    indexes: tuple[str, ...]
    key: tuple[str, ...]
    needs: tuple[str, ...] = ()


class AuditQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A named question. The first of its `plans` that fits the given parameters answers it."""

    name: str
    sentence: str
    columns: tuple[AuditColumn, ...]
    parameters: tuple[AuditParameter, ...] = ()
    plans: tuple[AuditPlan, ...]
    ranged: str = "at"  # what `since` and `until` are compared with

    def texts(self, row: AuditRow) -> list[str]:
        """The values of a row as people read them."""
        return [one.text(value) for one, value in zip(self.columns, row.values, strict=True)]

    @property
    def needed(self) -> tuple[str, ...]:
        """The parameters of which one must be given; none: all are optional."""
        return (
            ()
            if any(not plan.needs for plan in self.plans)
            else tuple(dict.fromkeys(one.needs[0] for one in self.plans))
        )

    def to_dict(self) -> dict[str, Any]:
        """What a person or a program needs to ask it."""
        return {
            "name": self.name, "sentence": self.sentence, "needed": list(self.needed), "range": self.ranged,
            "parameters": {one.name: one.meaning for one in self.parameters},
            "columns": {one.name: one.meaning for one in self.columns},
            "indexes": sorted({index for plan in self.plans for index in plan.indexes}),
        }  # fmt: skip


class AuditRow(msgspec.Struct, frozen=True):
    """One row of an answer: `row["tool"]`, `row.to_dict()`. `key` is its place, after which an answer continues."""

    columns: tuple[str, ...]
    values: tuple[Any, ...]
    key: tuple[Any, ...]

    def __getitem__(self, name: str) -> Any:
        try:
            return self.values[self.columns.index(name)]
        except ValueError:
            raise KeyError(name) from None

    def keys(self) -> Iterator[str]:
        return iter(self.columns)

    def to_dict(self) -> dict[str, Any]:
        return dict(zip(self.columns, self.values, strict=True))
