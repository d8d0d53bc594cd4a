"""A call of `s.*` that was never awaited fails the run and is named; the session is not ended by it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from perdure import Session, program, tool
from perdure.errors import ProgramError
from tests.runtime.support.scripted_world import Outside, World

MEMORY = pytest.mark.databases("memory")
Call = Callable[[Session], Coroutine[Any, Any, Any]]

CALLS: dict[str, Call] = {
    "s.step('one')": lambda s: s.step("one", lambda: 1),
    "s.ask()": lambda s: s.ask("continue?"),
    "s.sleep()": lambda s: s.sleep(hours=1),
    "s.decide()": lambda s: s.decide("this", because="that"),
    "s.task()": lambda s: s.task("title"),
    "s.remember()": lambda s: s.remember("key", 1),
    "s.recall()": lambda s: s.recall("key"),
    "s.save()": lambda s: s.save(b"bytes"),
    "s.restart()": lambda s: s.restart(),
}


async def test_an_effect_that_was_not_awaited_fails_the_program(world: World) -> None:
    outside = Outside()
    act = outside.tool()
    fixed = False

    @program
    async def forgets(s: Session) -> str:
        one = s.do(act, n=1)
        if fixed:
            await one
        return "done"

    line = inspect.getsourcelines(forgets.function)[1] + 2
    for _ in range(2):
        with pytest.raises(ProgramError, match=rf"s.do\('act'\) at .*test_forgotten_await.py:{line} in forgets"):
            await world.run(forgets.bind())
    assert ((await world.rt.get("s")).status, outside.calls) == ("ready", [])
    fixed = True
    view = await world.again()
    assert (view.status, view.result, len(outside.calls)) == ("done", "done", 1)


@MEMORY
@pytest.mark.parametrize("what", list(CALLS))
async def test_every_call_is_named(world: World, what: str) -> None:
    @program
    async def forgets(s: Session) -> str:
        _ = CALLS[what](s)
        return "done"

    with pytest.raises(ProgramError) as forgotten:
        await world.run(forgets.bind())
    assert f"awaiting {what} at " in forgotten.value.message


@MEMORY
async def test_a_task_that_never_began_is_named(world: World) -> None:
    outside = Outside()
    act = outside.tool()

    @program
    async def forgets(s: Session) -> str:
        asyncio.create_task(s.do(act, n=1))  # noqa: RUF006 - this is the mistake
        return "done"

    with pytest.raises(ProgramError, match=r"s\.do"):
        await world.run(forgets.bind())
    assert outside.calls == []


@MEMORY
async def test_what_was_closed_or_cancelled_does_not_count(world: World) -> None:
    outside = Outside()
    act = outside.tool()

    @program
    async def cleans_up(s: Session) -> str:
        s.do(act, n=1).close()
        early = asyncio.create_task(s.do(act, n=2))
        early.cancel()
        await asyncio.sleep(0)
        asyncio.create_task(s.do(act, n=3)).cancel()
        return "done"

    assert ((await world.run(cleans_up.bind())).result, outside.calls) == ("done", [])


@MEMORY
@pytest.mark.filterwarnings("error")
async def test_a_program_that_raises_gets_its_own_error(world: World) -> None:
    @program
    async def raises(s: Session) -> str:
        _ = s.step("one", lambda: 1)
        raise KeyError("x")

    assert (await world.run(raises.bind())).error["type"] == "KeyError"


@MEMORY
async def test_calls_work_wherever_a_coroutine_does(world: World) -> None:
    @tool(replay="pure")
    def act(n: int) -> int:
        return n

    @program
    async def works(s: Session) -> list[int]:
        one = s.do(act, n=1)
        assert asyncio.iscoroutine(one)
        assert inspect.isawaitable(one)
        first = await asyncio.wait_for(one, 60)
        second = await asyncio.shield(asyncio.ensure_future(s.do(act, n=2)))
        third, fourth = await asyncio.gather(s.do(act, n=3), s.do(act, n=4))
        return [first, second, third, fourth]

    assert (await world.run(works.bind())).result == [1, 2, 3, 4]


@MEMORY
async def test_a_program_that_is_being_suspended_has_forgotten_nothing(world: World) -> None:
    outside = Outside()
    act = outside.tool()

    @program
    async def asks(s: Session) -> int | None:
        later = s.do(act, n=1)
        answers = await asyncio.gather(s.ask("continue?"), return_exceptions=True)
        return await later if list(answers) == ["yes"] else None

    view = await world.run(asks.bind())
    assert [one.kind for one in view.waits] == ["input"]
    await world.rt.answer(view.waits[0].id, "yes")
    assert ((await world.again()).result, len(outside.calls)) == (7, 1)
