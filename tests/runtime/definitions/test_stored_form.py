"""What values of each declared type are stored as. Digests are made of it, so it never changes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from perdure import ConfigError, Session, program, tool
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.definitions.signature import Signature, argument_digest
from tests.runtime.support.scripted_world import World

WIDE = 2**70
INDIA = timezone(timedelta(hours=5, minutes=30))


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True)
class Line:
    path: str
    number: int = 1


@dataclass
class Tags:
    names: set[str]
    order: dict[str, int]


class Account(msgspec.Struct, rename="camel"):
    account_number: int
    linked: list[Account] = []
    labels: frozenset[Colour] = frozenset()


class Row(msgspec.Struct, array_like=True, tag=True):
    number: int


class Pair(NamedTuple):
    left: int
    right: int


class Typed(TypedDict):
    number: int


class Part(BaseModel):
    made: datetime
    weight: Decimal


class Order(BaseModel):
    model_config = ConfigDict(frozen=True)

    number: int
    shop_name: str = Field(alias="shopName")
    parts: list[Part] = []
    tags: frozenset[str] = frozenset()


class Login(BaseModel):
    password: SecretStr


class Handle(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    function: Callable[[], int]


class Loose(BaseModel):
    anything: Any


ORDER = Order(number=WIDE, shopName="a", parts=[Part(made=datetime(2026, 1, 2, tzinfo=UTC), weight=Decimal("1.50"))])


def signature_of(type_: Any) -> Signature:
    def act(given: None) -> None: ...

    act.__annotations__.update({"given": type_, "return": type_})
    return Signature(act)


# The digests of version 0.1. A record that was made with them is found by them for ever.
FROZEN: list[tuple[Any, Any, str, str]] = [
    (
        datetime, datetime(2026, 11, 16, 11, 45, 7, 120000, tzinfo=UTC), '"2026-11-16T11:45:07.120000Z"',
        "dccec7cb0c0fb7d232a7bc919de77ed34340d48248072854eb810a142fcc13a6",
    ),
    (
        datetime, datetime(2026, 11, 16, 11, 45, 7, tzinfo=INDIA), '"2026-11-16T11:45:07+05:30"',
        "38e166035ebe923fc4f2d898ab53bea4b387f0d11e9f40f11a6a0a23104a04c0",
    ),
    (
        datetime, datetime(2026, 11, 16, 11, 45, 7), '"2026-11-16T11:45:07"',  # noqa: DTZ001 - without a zone
        "a1be510962a4563466a994fe7165f7d52f0c779b9c031138a8ba1527da6c863e",
    ),
    (date, date(2026, 11, 16), '"2026-11-16"', "53c39ae45206160a510d249ee8fc0df1dfb398a52f844bdf1b81376848091f2d"),
    (time, time(11, 45, 7), '"11:45:07"', "4b02b686bee6a74de1ba7071d49100480c4a1e716cff5a7b323c03ce50f7ad74"),
    (
        timedelta, timedelta(days=1, seconds=2, microseconds=3), '"P1DT2.000003S"',
        "d51f68baa873625f94f003499acfe550b688d9aef9c01ab7e2f22cc33ce5a5f9",
    ),
    (Decimal, Decimal("1.50"), '"1.50"', "3de8ffbb342b24f38f2cf45b59553a76f35266f7a749098fd15abf8342e64fcd"),
    (Decimal, Decimal("-1E+20"), '"-1E+20"', "4f5fe8fdde254cd1933c554bcf4659173a72ab493bfd6bda94b51af433aa8f07"),
    (bytes, b"\x00\xffperdure", '"AP9wZXJkdXJl"', "5c51f4913d0d84a97c7d5ee721c9c8313485068b8e91049c666fb0e75ed8d922"),
    (bytes, b"", '""', "29bf58fc77b7e906cbad5513078dcc32a4b53907163ee79ab8f6cf9611e25c6b"),
    (
        UUID, UUID(int=7), '"00000000-0000-0000-0000-000000000007"',
        "1770180538e7cde9fa9041b518631ddac7e2aafee4bec10b98852a4ba3144201",
    ),
    (Colour, Colour.RED, '"red"', "754a374c6974054e885a137149678c820e43336608f8f5dcd62acfc1b46073fa"),
    (
        Line, Line("a", 2), '{"path":"a","number":2}',
        "eca9796949562b1a03e81690a86ad0d38c05854453c8f3b54477ec0db99cccb0",
    ),
    (
        dict[str, list[int]], {"b": [2], "a": [1]}, '{"b":[2],"a":[1]}',
        "64658b1b38c26d8a409d0946f3294d1ec6681d05a0b719ac1d54e0a71c3b1536",
    ),
    (tuple[int, str], (1, "x"), '[1,"x"]', "30560cf4065fbd99bd156fbb9f063323f1bfd9200114235b833e00d41174012d"),
    (float, 1.5, "1.5", "fec80b006749455f1165a9c3c9843db4d785651f66f5fd2d86a1d0c5c54f9219"),
    (int, 2**53 - 1, "9007199254740991", "97834f20d36cf47e77bb071ed023193f923d633dff5d74d8076a692913fc1f9d"),
    (
        Any, datetime(2026, 11, 16, tzinfo=UTC), '"2026-11-16T00:00:00Z"',
        "55e800c7a03bbd2557fa56e6f3ad1dc43cd15a52070bc65a1130375d318ae79b",
    ),
    (
        Any, Line("a"), '{"path":"a","number":1}',
        "9a063dc3a6d1243bc277537a2af50b86f61b80f428e15da4bb6b5ebe617bfd88",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "value", "text", "digest"), FROZEN)
def test_the_encodings_of_recorded_types_are_frozen(type_: Any, value: Any, text: str, digest: str) -> None:
    signature = signature_of(type_)
    assert argument_digest(signature.bind((value,), {})) == digest
    assert signature.encode_result(value) == text


RETURNED: list[tuple[Any, Any, Any]] = [
    (Path, Path("/a/b"), "/a/b"),
    (PurePosixPath | None, PurePosixPath("a"), "a"),
    (dict[int, list[int]], {7: [1], WIDE: [2]}, {"7": [1], str(WIDE): [2]}),
    (dict[Level, int], {Level.HIGH: 1}, {"2": 1}),
    (int, WIDE, str(WIDE)),
    (int, -(2**53), str(-(2**53))),
    (int | None, 2**53, str(2**53)),
    (int | float, WIDE, str(WIDE)),
    (int | datetime, WIDE, str(WIDE)),
    (Annotated[int, msgspec.Meta(ge=0)], WIDE, str(WIDE)),
    (list[int], [1, WIDE], [1, str(WIDE)]),
    (list[int] | str, [WIDE], [str(WIDE)]),
    (tuple[int, str], (WIDE, "9007199254740993"), [str(WIDE), "9007199254740993"]),
    (Pair, Pair(1, WIDE), [1, str(WIDE)]),
    (Typed, {"number": WIDE}, {"number": str(WIDE)}),
    (Row | Line, Row(WIDE), ["Row", str(WIDE)]),
    (
        Account, Account(WIDE, [Account(1)]),
        {"accountNumber": str(WIDE), "linked": [{"accountNumber": 1, "linked": [], "labels": []}], "labels": []},
    ),
    (set[int], {10, 9, WIDE}, [9, 10, str(WIDE)]),
    (frozenset[Colour], frozenset(Colour), ["blue", "red"]),
    (set[Line], {Line("b"), Line("a")}, [{"path": "a", "number": 1}, {"path": "b", "number": 1}]),
    (set[int | None], {None, 2}, [2, None]),
    (Tags, Tags({"b", "a"}, {"z": 1, "y": 2}), {"names": ["a", "b"], "order": {"z": 1, "y": 2}}),
    (
        Order | None, ORDER.model_copy(update={"tags": frozenset("cab")}),
        {
            "number": str(WIDE), "shop_name": "a", "tags": ["a", "b", "c"],
            "parts": [{"made": "2026-01-02T00:00:00Z", "weight": "1.50"}],
        },
    ),
    (list[Order], [ORDER], [ORDER.model_dump(mode="json") | {"number": str(WIDE)}]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "value", "stored"), RETURNED)
def test_a_declared_type_comes_back_as_it_was(type_: Any, value: Any, stored: Any) -> None:
    signature = signature_of(type_)
    arguments = signature.bind((value,), {})
    assert arguments == {"given": stored}
    assert signature.unbind(arguments) == {"given": value}
    assert signature.bind((), arguments) == arguments  # what is on record is bound again for an undo
    text = signature.encode_result(value)
    assert msgspec.json.decode(text) == stored
    assert signature.decode_result(text) == value


def test_big_integers_recorded_as_numbers_are_still_read() -> None:
    assert signature_of(int).decode_result(str(2**60)) == 2**60
    assert signature_of(Any).encode_result(2**60) == str(2**60)


def test_text_that_looks_like_a_wide_integer_stays_text() -> None:
    for type_ in (str, int | str, Any, dict[str, str]):
        value: Any = {"a": "9007199254740993"} if type_ == dict[str, str] else "9007199254740993"
        signature = signature_of(type_)
        assert signature.unbind(signature.bind((value,), {})) == {"given": value}
        assert signature.decode_result(signature.encode_result(value)) == value


@pytest.mark.parametrize("type_", [int | str, int | Decimal, int | bytes, Any, float])
def test_a_wide_integer_is_refused_where_text_is_possible(type_: Any) -> None:
    with pytest.raises(ConfigError, match="the parameter given"):
        signature_of(type_).bind((WIDE,), {})


@pytest.mark.parametrize("given", ["12", "9007199254740991", "09007199254740993", "1e400", " 9007199254740993", True])
def test_only_the_text_of_a_wide_integer_is_read_as_one(given: Any) -> None:
    with pytest.raises(ConfigError, match="given"):
        signature_of(int).bind((given,), {})


@pytest.mark.parametrize(
    ("type_", "why"),
    [
        (dict[int | str, int], "cannot be told apart"),
        (dict[Path, int], "Path cannot be a key"),
        (dict[tuple[int, int], str], "a key must be text"),
        (list[dict[str | bool, int]], "a key must be text"),
        (Login, "secret field"),
        (list[Handle], "Handle has no JSON form"),
        (Order | Line, "not supported"),
        (Path | str, "not supported"),
    ],
)
def test_a_type_that_cannot_come_back_is_refused_by_parameter(type_: Any, why: str) -> None:
    def takes(given: None) -> None: ...

    takes.__annotations__["given"] = type_
    with pytest.raises(ConfigError, match=rf"takes: the parameter given is declared as .*{why}"):
        tool(takes)


def test_an_argument_that_cannot_be_stored_is_refused_by_name() -> None:
    def takes(first: Any, second: object, third: Loose) -> None: ...

    signature = Signature(takes)
    for given, name in [
        ((1, Path("a"), Loose(anything=1)), "second"),
        ((object(), 1, Loose(anything=1)), "first"),
        ((1, 1, Loose(anything=WIDE)), "third"),
        ((1, 1, Loose(anything=b"\xff")), "third"),
    ]:
        with pytest.raises(ConfigError, match=f"takes: the parameter {name}"):
            signature.bind(given, {})


def test_a_model_is_shown_as_json_schema_with_its_parts() -> None:
    def takes(order: Order, folder: Path, line: Line) -> None: ...

    schema = Signature(takes).json_schema()
    assert schema["properties"]["folder"] == {"type": "string", "format": "path"}
    assert schema["properties"]["order"]["properties"]["parts"]["items"] == {"$ref": "#/$defs/Order.Part"}
    assert {"Order.Part", "Line"} <= schema["$defs"].keys()
    by_alias = {"number": 1, "shopName": "a"}  # as a model fills it in
    assert Signature(takes).unbind({"order": by_alias, "folder": "a", "line": {"path": "a"}})["order"].shop_name == "a"


SETS = """
from dataclasses import dataclass
from typing import Any
from pydantic import BaseModel
from perdure.runtime.definitions.signature import Signature, argument_digest

@dataclass
class Holder:
    names: set[str]

class Model(BaseModel):
    names: dict[str, set[str]]

def act(a: set[str], b: Any, c: Holder, d: Model, e: list[frozenset[str]]): ...

names = {"one", "two", "three", "four"}
given = (names, {"x": [names]}, Holder(names), Model(names={"a": names}), [frozenset(names)])
print(argument_digest(Signature(act).bind(given, {})))
"""


@pytest.mark.slow
def test_a_set_has_the_same_digest_in_every_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", SETS], capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed in (1, 2, 3)
    }  # fmt: skip
    assert len(digests) == 1


@tool(replay="idempotent")
def place_order(order: Order, files: dict[int, Path], labels: set[Colour]) -> Order:
    return order.model_copy(update={"number": order.number + len(files) + len(labels)})


def weigh(parts: list[Part], at: datetime) -> dict[int, Decimal]:
    return {at.year: sum((part.weight for part in parts), Decimal(0))}


@program
async def ship_order(s: Session, order: Order, files: dict[int, Path], at: datetime) -> Order:
    placed = await s.do(place_order, order, files, labels={Colour.RED, Colour.BLUE})
    weights = await s.step("weigh", weigh, placed.parts, at)
    assert weights == {2026: Decimal("1.50")}
    await s.ask("Is it well packed?")
    child = await s.child(pack_order.bind(placed))
    return child.model_copy(update={"shop_name": "b"})


@program
async def pack_order(s: Session, order: Order) -> Order:
    return order


@pytest.mark.databases("sqlite", "files", "postgres")
async def test_declared_types_survive_the_death_of_their_process(world: World) -> None:
    bound = ship_order.bind(ORDER, {WIDE: Path("/tmp")}, datetime(2026, 1, 2, tzinfo=UTC))
    view = await world.run(bound)
    world.crash()
    await world.rt.start(bound, id="s")  # equal arguments: the same session
    await world.rt.answer(view.waits[0].id, "yes", by="ada")
    done = await world.again()
    assert done.error is None
    result = await world.rt.result("s")
    assert result == ORDER.model_copy(update={"number": WIDE + 3, "shop_name": "b"})
    assert await world.outcomes(await world.effect()) == ["acknowledged"]
    world.verify()


async def test_an_undo_gets_declared_types(world: World) -> None:
    seen: list[Any] = []

    @tool(name="charge", replay="compensate", inflight=0)
    def charge(order: Order, files: dict[int, Path]) -> int:
        return order.number

    @charge.undo
    def refund(result: int | None, order: Order, files: dict[int, Path]) -> None:
        seen.append((result, order, files))

    @program
    async def pay(s: Session, order: Order) -> None:
        await s.do(charge, order, {WIDE: Path("a")})
        await s.ask("Keep it?")

    await world.run(pay.bind(ORDER))
    await world.rt.undo((await world.effect()).id, by="ada", because="wrong shop")
    await world.again()
    assert seen == [(WIDE, ORDER, {WIDE: Path("a")})]


class Names(NamedTuple):
    number: int
    names: frozenset[str]


class Numbered(msgspec.Struct, array_like=True, tag=True):
    number: int
    names: set[str]


@dataclass
class Holder:
    rows: list[Names]


@pytest.mark.parametrize(
    ("type_", "value", "stored"),
    [
        (Names, Names(1, frozenset("hgfedcba")), [1, list("abcdefgh")]),
        (Numbered, Numbered(1, set("hgfedcba")), ["Numbered", 1, list("abcdefgh")]),
        (Holder, Holder([Names(1, frozenset("hgfedcba"))]), {"rows": [[1, list("abcdefgh")]]}),
    ],
)
def test_sets_inside_values_stored_as_lists_are_sorted(type_: Any, value: Any, stored: Any) -> None:
    def take(x: Any) -> None: ...

    take.__annotations__["x"] = type_
    signature = Signature(take)
    plain = signature.bind((value,), {})
    assert plain == {"x": stored}
    assert signature.unbind(plain) == {"x": value}


@pytest.mark.parametrize("duration", [float("inf"), float("nan"), -1, 1e300, "9" * 400 + "s"])
def test_impossible_durations_are_config_errors(duration: float | str) -> None:
    with pytest.raises(ConfigError, match="is not a duration"):
        microseconds(duration)
