"""What a tool is declared with: a mistake is a `ConfigError` at the decorator, before anything can be done."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pytest

from perdure import ConfigError, Gate, tool
from perdure.runtime.definitions.signature import Signature


class Client: ...


@dataclasses.dataclass
class Holds:
    name: str
    client: Client


class Struct(msgspec.Struct):
    name: str
    next: Struct | None = None


class Colour(Enum):
    RED = "red"


class Typed(TypedDict):
    a: int


@pytest.mark.parametrize(
    ("argument", "value", "hint"),
    [
        ("replay", "prob", 'Did you mean "probe"?'),
        ("replay", "idempotant", 'Did you mean "idempotent"?'),
        ("replay", "xyz", "It is one of"),
        ("replay", None, "It is one of"),
        ("timeout", "soon", "It is a duration"),
        ("timeout", -1, "It is a duration"),
        ("timeout", [], "It is a duration"),
        ("timeout", float("inf"), "It is a duration"),
        ("timeout", True, "It is a duration"),
        ("inflight", None, "It is a duration"),
        ("key_ttl", "1 week", "It is a duration"),
        ("retry", 0, "at least 1"),
        ("retry", "3", "whole number"),
        ("retry", 2.5, "whole number"),
        ("safe_errors", OSError, "tuple of exception types"),
        ("safe_errors", ("OSError",), "tuple of exception types"),
        ("targets", "pr:{pr}", "tuple of texts"),
        ("leases", (1,), "tuple of texts"),
        ("gate", "merge", "perdure.Gate"),
        ("gate", Gate("merge", expires="soon"), "It is a duration"),
    ],
)
def test_a_wrong_argument_is_named_with_its_tool(argument: str, value: Any, hint: str) -> None:
    def act(pr: int) -> None: ...

    with pytest.raises(ConfigError) as wrong:
        tool(**{argument: value})(act)
    assert wrong.value.message.startswith(f"Tool act: {argument}")
    assert hint in wrong.value.hint


def test_a_name_instead_of_a_function_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="'post' is no function"):
        tool("post")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "type_",
    [Client, list[Client], dict[str, Client], Client | None, int | Client, Holds, Callable[[], int], complex],
)
def test_a_type_without_a_stored_form_is_refused_at_the_declaration(type_: Any) -> None:
    def returns() -> None: ...

    def takes(given: None) -> None: ...

    returns.__annotations__["return"] = type_
    takes.__annotations__["given"] = type_
    with pytest.raises(ConfigError, match=r"returns: the result is declared as .* which cannot be stored"):
        tool(returns)
    with pytest.raises(ConfigError, match=r"takes: the parameter given is declared as .* which cannot be stored"):
        tool(takes)


@pytest.mark.parametrize(
    "type_",
    [
        None, int, str, Any, object, list[int], dict[str, list[int]], Struct, list[Struct | None], Colour, Typed,
        datetime, Decimal, bytes, Path, Path | None, dict[int, Path], set[int], tuple[int, ...],
        int | str | None, Mapping[str, int], Iterable[int],
    ],
)  # fmt: skip
def test_every_type_with_a_stored_form_can_be_declared(type_: Any) -> None:
    def act(given: None) -> None: ...

    act.__annotations__.update({"given": type_, "return": type_})
    assert Signature(act).returns in (type_, type(None))
