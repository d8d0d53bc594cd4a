"""What a tool takes, as JSON Schema, derived from its signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from perdure import Call, ConfigError, Transaction, tool


@dataclass
class Line:
    path: str
    number: int = 1


def test_a_schema_is_derived_from_the_signature_without_what_perdure_supplies() -> None:
    @tool(name="comment")
    def comment(
        call: Call, pr: int, body: str, side: Literal["left", "right"] = "left", at: Line | None = None
    ) -> None: ...

    schema = comment.signature.json_schema()
    assert schema["required"] == ["pr", "body"]
    assert schema["properties"]["pr"] == {"type": "integer"}
    assert schema["properties"]["side"]["enum"] == ["left", "right"]
    assert schema["properties"]["side"]["default"] == "left"
    assert schema["$defs"]["Line"]["properties"]["path"] == {"type": "string"}
    assert (schema["additionalProperties"], "call" in schema["properties"]) == (False, False)


def test_a_joint_tool_shows_no_transaction() -> None:
    @tool(name="debit", replay="joint")
    def debit(tx: Transaction, cents: int) -> int:
        return cents

    assert list(debit.signature.json_schema()["properties"]) == ["cents"]


@pytest.mark.parametrize("arguments", [{}, {"n": "x"}, {"n": 1, "m": 2}, {"n": 1.5}])
def test_wrong_arguments_are_refused_when_they_are_bound(arguments: dict[str, object]) -> None:
    @tool(name="act")
    def act(n: int) -> None: ...

    with pytest.raises(ConfigError, match="act"):
        act.signature.bind((), arguments)


def test_a_tool_names_each_argument_and_two_definitions_need_two_names() -> None:
    with pytest.raises(ConfigError, match="names each argument"):

        @tool(name="loose")
        def loose(*args: int) -> None: ...

    @tool(name="twice")
    def one() -> None: ...

    with pytest.raises(ConfigError, match="Two definitions"):

        @tool(name="twice")
        def other() -> None: ...


@pytest.mark.parametrize("declared", [{"retry": 0}, {"inflight": "soon"}, {"replay": "joint"}])
def test_a_declaration_that_makes_no_sense_is_refused(declared: dict[str, object]) -> None:
    with pytest.raises(ConfigError):

        @tool(name="odd", **declared)  # type: ignore[call-overload,untyped-decorator]
        async def odd(n: int) -> None: ...
