"""The schema of a message type refuses nothing that the type could read."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from perdure.domain.json_schema import mismatch
from perdure.runtime.calls.message_type import MessageType, message_body


class Colour(Enum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: float


class Node(msgspec.Struct, tag=True, rename="camel"):
    its_name: str
    below: list[Node] = []


class Leaf(msgspec.Struct, tag=True, forbid_unknown_fields=True):
    size: int


class Pair(msgspec.Struct, array_like=True):
    left: int
    right: str


class Terms(TypedDict, total=False):
    days: int


class Lax(pydantic.BaseModel):
    n: int = pydantic.Field(alias="number")


@dataclass
class Parcel:
    to: str
    sizes: dict[int, Decimal] = field(default_factory=dict)


TYPES: list[Any] = [
    int, float, str, bool, None, object, Any, bytes, Decimal, UUID, datetime.datetime, datetime.timedelta, Path, Colour,
    Point, Node, Node | Leaf, Pair, Terms, Lax, list[Lax], Parcel, Parcel | None, int | str, tuple[int, str], set[int],
    list[int], dict[str, list[int]], dict[int, str], Iterable[int], Literal["a", 1],
]  # fmt: skip
VALUES: list[Any] = [
    None, True, 1, 1.0, 1.5, -(2**53), str(2**70), "a", "1.5", "", [], [1], [1, "a"], [1, 2.5], {}, {"number": "5"},
    {"n": 5}, {"days": 1}, {"to": "a"}, {"to": "a", "sizes": {"1": 2.5}}, {"to": "a", "more": 1}, {"1": "a"},
    {"type": "Node", "itsName": "a", "below": [{"type": "Node", "itsName": "b"}]}, {"itsName": "a"},
    {"type": "Leaf", "size": 1}, {"type": "Leaf", "size": 1, "more": 1}, {"a": [1]}, "2026-01-01T00:00:00Z", "P1D",
    "aGk=", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", [{"number": 1}], 10**30,
]  # fmt: skip


@pytest.mark.parametrize("declared", TYPES, ids=str)
def test_schema_refuses_nothing_that_can_be_read(declared: Any) -> None:
    kind = MessageType(declared)
    schema = msgspec.json.decode(msgspec.json.encode(kind.schema()))
    read = [value for value in VALUES if kind.why_unfit(value) is None]
    assert [value for value in read if mismatch(schema, value) is not None] == []
    assert read


@pytest.mark.parametrize(
    ("declared", "value", "why"),
    [
        (int, "a", "the message is not of type integer"),
        (int, True, "the message is not of type integer"),
        (int, 1.5, "the message is not of type integer"),
        (Node, {"type": "Node", "itsName": "a", "below": [{"type": "Node"}]}, "the message.below[0] has no itsName"),
        (Node | Leaf, {"type": "Leaf", "size": "1"}, "the message is of none of its types"),
        (Leaf, {"size": 1, "more": 2}, "the message has an unknown field more"),
        (Literal["a"], "b", "the message is not one of a"),
        (dict[str, list[int]], {"a": ["b"]}, "the message.a[0] is not of type integer"),
    ],
)
def test_schema_refuses_what_cannot_be_read(declared: Any, value: Any, why: str) -> None:
    kind = MessageType(declared)
    assert kind.why_unfit(value) is not None
    assert mismatch(kind.schema(), value) == why


def test_sent_objects_can_be_read_as_their_type() -> None:
    for sent in (Parcel("a", {1: Decimal("2.5")}), Lax(number=2**60), Leaf(1), Point(1, 2.0), Colour.RED, {2, 1}):
        kind = MessageType(set[int] if isinstance(sent, set) else type(sent))
        body = message_body(sent)
        assert mismatch(kind.schema(), body) is None
        assert kind.read(msgspec.json.encode(body).decode()) == sent
