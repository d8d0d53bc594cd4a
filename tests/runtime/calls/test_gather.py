"""`s.gather`: calls side by side, with the same positions in every run."""

from __future__ import annotations

import asyncio

import pytest

from perdure import Session, StepFailed, program
from perdure.runtime.definitions.program import Bound
from tests.runtime.support.scripted_world import Outside, World, die

MEMORY = pytest.mark.databases("memory")
DURABLE = pytest.mark.databases("sqlite", "files", "postgres")


def fail(text: str) -> None:
    raise ValueError(text)


async def work(s: Session, n: int, gate: asyncio.Event | None = None) -> int:
    """A coroutine of a program: equal calls, made in an order that is chance."""
    if gate is not None:
        await gate.wait()
    first = await s.step("first", lambda: 1)
    return first + await s.step("number", lambda: n)


async def test_results_come_in_the_order_of_the_arguments(world: World) -> None:
    @program
    async def gathers(s: Session) -> list[object]:
        gate = asyncio.Event()

        async def last() -> str:
            gate.set()
            return "last"

        calls = await s.gather(work(s, 10, gate), s.step("two", lambda: 2), work(s, 20), last())
        again = await s.gather(*[work(s, n) for n in range(3)])
        return [*calls, *again, await s.ask("Continue?"), *await s.gather()]

    view = await world.run(gathers.bind())
    assert view.status == "waiting"
    await world.rt.answer(view.waits[0].id, "yes")
    assert (await world.again()).result == [11, 2, 21, "last", 1, 2, 3, "yes"]
    world.verify()


@MEMORY
async def test_the_error_of_the_lowest_index_is_raised_after_all_have_ended(world: World) -> None:
    ended: list[str] = []

    @program
    async def gathers(s: Session) -> str:
        gate = asyncio.Event()

        async def late() -> None:
            await gate.wait()
            ended.append("late")
            await s.step("late", fail, "late")

        async def early() -> None:
            try:
                await s.step("early", fail, "early")
            finally:
                gate.set()

        try:
            await s.gather(late(), early(), s.step("plain", ended.append, "plain"))
        except StepFailed as error:
            return error.message
        return ""

    assert "late" in str((await world.run(gathers.bind())).result)
    assert sorted(ended) == ["late", "plain"]


async def test_several_questions_are_asked_at_the_same_time(world: World) -> None:
    @program
    async def asks(s: Session) -> list[str]:
        async def follow_up() -> str:
            return f"{await s.ask('Three?')} {await s.ask('Four?')}"

        return list(await s.gather(s.ask("One?"), s.ask("Two?"), follow_up()))

    view = await world.run(asks.bind())
    assert (view.status, len(view.waits)) == ("waiting", 3)
    for number in range(4):
        (one, *_) = (await world.rt.get("s")).waits
        await world.rt.answer(one.id, str(number))
        view = await world.again()
    assert view.status == "done"
    assert sorted(" ".join(view.result).split()) == ["0", "1", "2", "3"]


@MEMORY
async def test_an_error_waits_for_a_question_that_is_open(world: World) -> None:
    caught: list[str] = []

    @program
    async def gathers(s: Session) -> str:
        try:
            await s.gather(s.step("bad", fail, "bad"), s.ask("Continue?"))
        except StepFailed as error:
            caught.append(error.message)
            return "failed"
        return "done"

    view = await world.run(gathers.bind())
    assert (view.status, caught) == ("waiting", [])
    await world.rt.answer(view.waits[0].id, "yes")
    assert (await world.again()).result == "failed"


def acting(outside: Outside, *, dies: bool = False) -> Bound[int]:
    act = outside.tool("idempotent", name="act")
    deaths = [die] if dies else []

    @program
    async def acts(s: Session) -> int:
        async def pair(n: int) -> int:
            return int(await s.do(act, n=1)) + n

        results = await s.gather(s.do(act, n=1), pair(1), pair(2))
        if deaths:
            deaths.pop()()
        return sum(results) + await s.step("end", lambda: 1)

    return acts.bind()


@DURABLE
async def test_effects_side_by_side_are_done_once_after_a_kill(world: World) -> None:
    outside = Outside()
    await world.dies(acting(outside, dies=True))
    assert (await world.again()).result == 25
    assert len(outside.calls) == 3
    assert len({call.key for call in outside.calls}) == 3
    world.verify()


@DURABLE
async def test_a_kill_in_one_of_the_calls_repeats_only_that_one(world: World) -> None:
    outside = Outside("done", "died")
    await world.dies(acting(outside))
    world.clock.advance(seconds=60)
    assert (await world.again()).result == 25
    assert len({call.key for call in outside.calls}) == 3
    world.verify()


@MEMORY
async def test_a_gather_may_be_nested_in_a_scope(world: World) -> None:
    @program
    async def gathers(s: Session) -> list[int]:
        async def inner(n: int) -> int:
            return sum(await s.gather(work(s, n), work(s, n + 1)))

        async with s.scope("aside"):
            inside = await s.gather(inner(1), inner(10))
        await s.ask("Continue?")
        return [*inside, *await s.gather(inner(1))]

    view = await world.run(gathers.bind())
    await world.rt.answer(view.waits[0].id, "yes")
    assert (await world.again()).result == [5, 23, 5]


@MEMORY
async def test_a_cancelled_gather_cancels_what_it_awaits(world: World) -> None:
    ended: list[str] = []

    @program
    async def gathers(s: Session) -> str:
        async def stuck() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("stuck")

        try:
            async with asyncio.timeout(0.01):
                await s.gather(stuck(), s.step("quick", lambda: 1))
        except TimeoutError:
            return "timed out"
        return ""

    assert (await world.run(gathers.bind())).result == "timed out"
    assert ended == ["stuck"]
