"""The context of a call is found by its annotation."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Annotated, Any

import pytest

import perdure
from perdure import Call, Outcome, Session, Tool, Transaction, program, tool
from tests.runtime.support.scripted_world import World

if TYPE_CHECKING:
    from perdure import Call as Hidden

MEMORY = pytest.mark.databases("memory")


def first(ctx: Call, n: int) -> str:
    return f"{ctx.key} {n}"


def last(n: int, ctx: Call) -> str:
    return f"{ctx.key} {n}"


def named_only(n: int, *, ctx: perdure.Call | None = None) -> str:
    return f"{ctx.key if ctx else ''} {n}"


def annotated(ctx: Annotated[Call, "context"], n: int) -> str:
    return f"{ctx.key} {n}"


def positional(ctx: Call, /, n: int) -> str:
    return f"{ctx.key} {n}"


def unannotated(call, n: int) -> str:  # type: ignore[no-untyped-def]
    return f"{call.key} {n}"


def hidden(call: Hidden, n: int) -> str:
    return f"{call.key} {n}"


async def asynchronous(ctx: Call, n: int) -> str:
    return f"{ctx.key} {n}"


@MEMORY
@pytest.mark.parametrize(
    "function", [first, last, named_only, annotated, positional, unannotated, hidden, asynchronous]
)
async def test_a_tool_gets_its_context_under_any_parameter_name(world: World, function: Any) -> None:
    act: Tool[Any, Any] = tool(name="act")(function)

    @program
    async def acts(s: Session) -> str:
        return str(await s.do(act, n=7))

    done = await world.run(acts.bind())
    effect = await world.effect()
    assert done.result == f"{effect.idempotency_key} 7"
    assert effect.intent == {"n": 7}
    assert list(act.signature.json_schema()["properties"]) == ["n"]


@MEMORY
async def test_a_parameter_named_call_with_another_type_is_an_argument(world: World) -> None:
    @tool(name="dial")
    def dial(call: str, ctx: Call) -> str:
        return f"{call} {ctx.attempt}"

    @tool(name="ring")
    def ring(call: str) -> str:
        return call

    @program
    async def dials(s: Session) -> list[str]:
        return [await s.do(dial, call="ada"), await s.do(ring, "bob")]  # type: ignore[call-overload]

    assert (await world.run(dials.bind())).result == ["ada 1", "bob"]
    assert [effect.intent for effect in await world.effects()] == [{"call": "ada"}, {"call": "bob"}]


async def test_a_probe_and_an_undo_get_their_context_too(world: World) -> None:
    seen: list[str] = []

    @tool(name="post", replay="probe", inflight=0)
    def post(n: int, ctx: Call) -> int:
        raise OSError(ctx.key)

    @post.probe
    def look(ctx: Call, n: int) -> Outcome:
        seen.append(ctx.key)
        return Outcome.happened(n)

    @post.undo
    def remove(n: int, result: int | None, ctx: Call) -> None:
        seen.append(f"{ctx.undoes} {result}")

    @program
    async def posts(s: Session) -> str:
        await s.do(post, n=7)  # type: ignore[call-overload]
        return str(await s.ask("Keep it?"))

    await world.run(posts.bind())
    effect = await world.effect()
    await world.rt.undo(effect.id, by="ada", because="wrong")
    await world.again()
    assert seen == [effect.idempotency_key, f"{effect.idempotency_key} 7"]


@MEMORY
async def test_a_probe_may_leave_the_context_out(world: World) -> None:
    @tool(name="post", replay="probe", inflight=0)
    def post(ctx: Call, n: int) -> int:
        raise OSError(ctx.key)

    @post.probe
    def look(n: int) -> Outcome:
        return Outcome.happened(n)

    @program
    async def posts(s: Session) -> int:
        return await s.do(post, n=7)

    assert (await world.run(posts.bind())).result == 7


@pytest.mark.databases("sqlite", "postgres")
async def test_a_transaction_may_be_named_log(world: World) -> None:
    @tool(name="debit", replay="joint")
    def debit(log: Transaction, cents: int) -> int:
        return len(log.execute("select 1")) + cents

    @program
    async def debits(s: Session) -> int:
        return await s.do(debit, cents=5)

    assert (await world.run(debits.bind())).result == 6


def with_argument_named_call(tx: Transaction, call) -> int:  # type: ignore[no-untyped-def]
    return len(tx.execute("select 1")) + int(call)


def with_transaction_named_call(call, cents: int) -> int:  # type: ignore[no-untyped-def]
    return len(call.execute("select 1")) + cents


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("function", [with_argument_named_call, with_transaction_named_call])
async def test_a_joint_tool_with_a_parameter_named_call_gets_a_transaction(world: World, function: Any) -> None:
    credit = tool(name="credit", replay="joint")(function)

    @program
    async def credits(s: Session) -> int:
        result: int = await s.do(credit, 5)
        return result

    assert (await world.run(credits.bind())).result == 6


SCRIPT = """
from perdure import Call, Session, program, run, tool

@tool
def act(ctx: Call, n: int) -> str:
    return f"{ctx.attempt} {n}"

@program
async def acts(s: Session) -> str:
    return await s.do(act, n=7)

print(run(acts.bind(), store="memory:"))
"""


@pytest.mark.slow
def test_annotations_that_are_types_are_read_too() -> None:
    assert subprocess.check_output([sys.executable, "-c", SCRIPT], text=True) == "1 7\n"
