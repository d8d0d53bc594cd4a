"""Identity is content and position: which call is which, in every run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import Call, ConfigError, ProgramChanged, Session, program, tool
from tests.runtime.support.scripted_world import Outside, World

pytestmark = pytest.mark.databases("sqlite", "postgres")
MEMORY = pytest.mark.databases("memory")


@MEMORY
async def test_a_call_takes_its_position_when_it_is_made(world: World) -> None:
    act = Outside().tool()
    order = [0, 1]

    @program
    async def calls(s: Session) -> None:
        both = [s.do(act, n=1), s.do(act, n=1)]
        for place in order:
            await both[place]
        await s.ask("continue?")

    await world.run(calls.bind(), "forward")
    order.reverse()
    await world.run(calls.bind(), "backward")
    places = [[one.position for one in await world.effects(id)] for id in ("forward", "backward")]
    assert sorted(places[0]) == sorted(places[1])
    assert places[0] != places[1]


@MEMORY
async def test_equal_calls_twice_are_two_effects_with_two_keys(world: World) -> None:
    outside = Outside()
    act = outside.tool()

    @program
    async def calls(s: Session) -> None:
        await s.do(act, n=1)
        await s.do(act, n=1)

    await world.run(calls.bind())
    assert (len(outside.happened), len(set(outside.keys))) == (2, 2)


@MEMORY
async def test_the_order_of_arguments_and_defaults_left_out_change_nothing(world: World) -> None:
    @tool
    def send(call: Call, to: str, text: str = "hi", copies: int = 1) -> str:
        return call.key

    spelled = {"way": 0}

    @program
    async def calls(s: Session) -> str:
        match spelled["way"]:
            case 0:
                key = await s.do(send, "ada")
            case 1:
                key = await s.do(send, text="hi", to="ada")
            case _:
                key = await s.do(send, copies=1, to="ada", text="hi")
        await s.ask("continue?")
        return key

    view = await world.run(calls.bind())
    for spelled["way"] in (1, 2):
        await world.rt.pause("s")
        await world.rt.resume("s")
        view = await world.again()
    await world.rt.answer(view.waits[0].id, 1)
    assert (await world.again()).status == "done"
    assert len(await world.effects()) == 1


@MEMORY
@pytest.mark.parametrize("value", [2**53 + 1, -(2**60), object(), float("nan"), {"a": {1, object()}}, "\ud800", 1j])
async def test_what_is_not_json_is_refused_before_anything_is_planned(world: World, value: Any) -> None:
    outside = Outside()

    @tool
    def act(n: Any) -> int:
        raise AssertionError("it ran")

    @program
    async def calls(s: Session) -> str:
        try:
            await s.do(act, n=value)
        except ConfigError as error:
            return error.code
        return "it was taken"

    assert (await world.run(calls.bind())).result == "config"
    assert (await world.effects(), outside.calls) == ([], [])


@MEMORY
async def test_a_task_beside_others_needs_a_scope_of_its_own(world: World) -> None:
    act = Outside().tool()

    @program
    async def beside(s: Session) -> list[str]:
        async def bare() -> str:
            try:
                await s.do(act, n=1)
            except ConfigError as error:
                return error.code
            return "it was let in"

        async def scoped(name: str) -> str:
            async with s.scope(name):
                return str(await s.do(act, n=1))

        return list(await asyncio.gather(bare(), scoped("left"), scoped("right")))

    view = await world.run(beside.bind())
    assert view.result == ["config", "7", "7"]
    assert sorted(one.position[1] for one in await world.effects()) == ["left", "right"]


@MEMORY
async def test_scopes_nest_by_the_task_they_were_made_in(world: World) -> None:
    act = Outside().tool()

    @program
    async def nested(s: Session) -> None:
        async def inner(name: str) -> None:
            async with s.scope(name):
                await s.do(act, n=1)

        async def outer(name: str) -> None:
            async with s.scope(name):
                async with asyncio.TaskGroup() as group:
                    group.create_task(inner("x"))
                    group.create_task(inner("y"))

        async with asyncio.TaskGroup() as group:
            group.create_task(outer("a"))
            group.create_task(outer("b"))

    view = await world.run(nested.bind())
    assert view.status == "done", view.error
    assert sorted(one.position[1] for one in await world.effects()) == ["a/x", "a/y", "b/x", "b/y"]


@MEMORY
@pytest.mark.parametrize("name", ["a/b", "", "sp ace"])
async def test_a_scope_has_a_usable_name_and_uses_it_once(world: World, name: str) -> None:
    @program
    async def scopes(s: Session) -> int:
        refused = 0
        for one in ("once", "once", name):
            try:
                async with s.scope(one):
                    pass
            except ConfigError:
                refused += 1
        return refused

    assert (await world.run(scopes.bind())).result == 2


async def test_plans_commit_in_the_order_of_the_calls(world: World) -> None:
    outside = Outside()
    act, gated = outside.tool(), outside.tool(name="gated", gate=None)

    @program
    async def many(s: Session) -> list[int]:
        return list(await asyncio.gather(*(s.do(act if n % 2 else gated, n=n) for n in range(10))))

    await world.run(many.bind())
    assert [one.intent["n"] for one in await world.effects()] == list(range(10))


@MEMORY
async def test_concurrent_keyed_calls_are_distinguished_by_their_keys(world: World) -> None:
    outside = Outside()
    act = outside.tool()
    keys = ["a", "b"]

    @program
    async def keyed(s: Session) -> None:
        await asyncio.gather(*(s.do(act.keyed(key), n=1) for key in keys))
        await s.ask("continue?")

    view = await world.run(keyed.bind())
    keys[:] = ["c", "b", "a"]
    await world.rt.answer(view.waits[0].id, 1)
    assert (await world.again()).status == "done", "a keyed record that is not used stops no run"
    assert len(outside.happened) == 3


async def test_a_changed_call_is_refused_instead_of_acting_twice(world: World) -> None:
    outside = Outside()
    act, other = outside.tool(), outside.tool(name="other")
    version = {"n": 1}

    @program
    async def changes(s: Session) -> int:
        try:
            got: int = await s.do(act, n=version["n"])
        except Exception:
            got = -1  # whatever a program catches, it does not continue with a changed past
        await s.ask("continue?")
        return got

    view = await world.run(changes.bind())
    await world.rt.answer(view.waits[0].id, 1)
    version["n"] = 2
    with pytest.raises(ProgramChanged, match="act"):
        await world.again()
    assert ((await world.rt.get("s")).status, len(outside.happened)) == ("ready", 1)
    version["n"] = 1
    assert (await world.again()).result == 7
    assert other.name == "other"


@MEMORY
async def test_code_may_change_in_every_other_way(world: World) -> None:
    outside = Outside()
    act, other = outside.tool(), outside.tool(name="other")
    new = {"code": False}

    @program
    async def changes(s: Session) -> str:
        if new["code"]:
            await s.step("early", lambda: 1)
            await s.do(other, n=9)
            async with s.scope("aside"):
                await s.do(act, n=2)
        await s.do(act, n=1)
        if new["code"]:
            await s.do(act, n=3)
        else:
            await s.do(other.keyed("k"), n=4)
        await s.ask("continue?")
        return "done"

    view = await world.run(changes.bind())
    new["code"] = True
    await world.rt.answer(view.waits[0].id, 1)
    assert (await world.again()).result == "done"
    assert len(outside.happened) == 5


@MEMORY
async def test_equal_calls_of_another_session_never_share_a_key(world: World) -> None:
    outside = Outside()
    act = outside.tool()

    @program
    async def same(s: Session) -> None:
        await s.do(act, n=1)
        await s.ask("continue?")

    for id in ("one", "two"):
        await world.run(same.bind(), id)
    branch = await world.rt.fork("one", at=2)
    await world.rt.run(branch.id)
    assert (len(outside.keys), len(set(outside.keys))) == (3, 3)


@MEMORY
async def test_siblings_recorded_out_of_order_are_not_a_changed_program(world: World) -> None:
    """A slow pure call is recorded after its fast sibling; a crash in between must not look like new code."""
    from tests.runtime.support.scripted_world import die

    ran: list[int] = []
    slow = asyncio.Event()

    @tool(replay="pure")
    async def look(n: int) -> int:
        ran.append(n)
        if n == 0 and len(ran) <= 2:
            await slow.wait()
            die()
        return n

    @program
    async def both(s: Session) -> list[int]:
        async def fast() -> int:
            got = await two
            slow.set()
            return got

        one, two = s.do(look, n=0), s.do(look, n=1)
        return list(await asyncio.gather(one, fast()))

    with pytest.raises(Exception, match="dead"):
        await world.run(both.bind())
    from perdure import faults

    faults.disarm()
    world.clock.advance(seconds=16)
    assert (await world.again()).result == [0, 1]
    assert sorted(ran) == [0, 0, 1]
