"""Waiting: a wait holds its caller, and a program that can only wait is unwound without noticing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import perdure
from perdure import Session, Suspended, program, tool
from perdure.errors import IllegalMove
from perdure.runtime.queries import SessionView
from perdure.store.moves import inbox
from perdure.testing import ManualClock
from tests.runtime.support.scripted_world import Outside, World

pytestmark = pytest.mark.databases("memory")
BOTH = pytest.mark.databases("sqlite", "postgres", "files")


async def answered(world: World, answer: Any = "yes", id: str = "s") -> Any:
    """Answer everything a session asks, one after another."""
    view = await world.rt.run(id)
    while view.waits:
        await world.rt.answer(view.waits[0].id, answer)
        view = await world.rt.run(id)
    assert view.status == "done", view.error
    return view.result


async def test_except_exception_never_sees_a_suspension_and_finally_runs(world: World) -> None:
    seen: list[str] = []

    @program
    async def careful(s: Session) -> str:
        try:
            return str(await s.ask("continue?"))
        except Exception:
            seen.append("except")
            return "swallowed"
        finally:
            seen.append("finally")

    view = await world.run(careful.bind())
    assert (view.status, seen) == ("waiting", ["finally"])
    assert await answered(world) == "yes"
    assert "except" not in seen


async def test_the_session_is_refused_inside_finally_after_a_suspension(world: World) -> None:
    outside = Outside()
    act = outside.tool()
    refused: list[str] = []

    @program
    async def tidy(s: Session) -> None:
        try:
            await s.ask("continue?")
        finally:
            for use in (lambda: s.do(act, n=1), lambda: s.step("x", lambda: 1), lambda: s.ask("?"), lambda: s.sleep(1)):
                try:
                    await use()
                except Suspended:
                    refused.append("suspended")

    view = await world.run(tidy.bind())
    assert (view.status, refused, outside.calls, len(view.waits)) == ("waiting", ["suspended"] * 4, [], 1)


async def test_a_program_that_swallows_everything_still_waits(world: World) -> None:
    @program
    async def greedy(s: Session) -> str:
        try:
            return str(await s.ask("continue?"))
        except BaseException:
            return "I have seen it all"

    assert (await world.run(greedy.bind())).status == "waiting"
    assert await answered(world) == "yes"


async def test_a_context_manager_is_left_in_order(world: World) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def room() -> AsyncIterator[None]:
        events.append("in")
        try:
            yield
        finally:
            await asyncio.sleep(0)
            events.append("out")

    @program
    async def inside(s: Session) -> str:
        async with room():
            return str(await s.ask("continue?"))

    assert (await world.run(inside.bind())).status == "waiting"
    assert events == ["in", "out"]
    assert await answered(world) == "yes"


@BOTH
async def test_a_task_group_of_waiting_tasks_waits_for_all_of_them(world: World) -> None:
    @program
    async def group(s: Session) -> list[str]:
        async def one(name: str) -> str:
            async with s.scope(name):
                return str(await s.ask(f"{name}?"))

        made: list[asyncio.Task[str]] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                made += [tasks.create_task(one(name)) for name in ("a", "b", "c")]
        except* Exception:
            made.clear()
        return [task.result() for task in made]

    view = await world.run(group.bind())
    assert ([one.kind for one in view.waits], view.status) == (["input"] * 3, "waiting")
    assert await answered(world) == ["yes"] * 3


async def test_nested_groups_park_and_continue(world: World) -> None:
    @program
    async def nested(s: Session) -> list[str]:
        async def leaf(name: str) -> str:
            async with s.scope(name):
                return str(await s.ask(f"{name}?"))

        async def branch(name: str) -> list[str]:
            async with s.scope(name):
                async with asyncio.TaskGroup() as inner:
                    leaves = [inner.create_task(leaf(f"{name}{n}")) for n in range(2)]
                return [one.result() for one in leaves]

        async with asyncio.TaskGroup() as outer:
            made = [outer.create_task(branch(name)) for name in ("l", "r")]
        return [text for one in made for text in one.result()]

    view = await asyncio.wait_for(world.run(nested.bind()), 120)
    assert len(view.waits) == 4
    assert await answered(world) == ["yes"] * 4


async def test_gather_waits_for_several_things_at_once(world: World) -> None:
    @program
    async def several(s: Session) -> list[Any]:
        return list(await asyncio.gather(s.ask("a?"), s.ask("b?"), s.sleep(hours=1)))

    view = await world.run(several.bind())
    assert sorted(one.kind for one in view.waits) == ["input", "input", "timer"]
    for one in view.waits:
        if one.kind == "input":
            await world.rt.answer(one.id, "ok")
    assert [one.kind for one in (await world.again()).waits] == ["timer"]
    world.clock.advance(hours=1)
    assert (await world.again()).result == ["ok", "ok", None]


async def test_a_wait_parks_only_after_a_concurrent_act_is_recorded(world: World) -> None:
    go = asyncio.Event()
    calls: list[int] = []

    @tool
    async def slow(n: int) -> int:
        calls.append(n)
        await go.wait()
        return n

    @program
    async def beside(s: Session) -> list[Any]:
        async def acting() -> int:
            async with s.scope("acting"):
                return await s.do(slow, n=1)

        work = asyncio.create_task(acting())
        return [await s.ask("continue?"), await work]

    running = asyncio.ensure_future(world.run(beside.bind()))
    while not calls or [one.kind for one in (await world.rt.get("s")).waits] != ["input"]:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    assert not running.done(), "an act is running"
    go.set()
    view = await running
    assert (view.status, (await world.effect()).state) == ("waiting", "acknowledged")
    assert await answered(world) == ["yes", 1]
    assert calls == [1]


@BOTH
async def test_an_answer_between_asking_and_parking_is_not_missed(world: World) -> None:
    """The answer comes while something else still runs, so that the program never needs to park."""
    runs: list[int] = []

    @tool(replay="pure")
    async def give(n: int) -> int:
        (asked,) = (await world.rt.get("s")).waits
        await world.rt.answer(asked.id, "early")
        return n

    @program
    async def race(s: Session) -> str:
        runs.append(1)

        async def giver() -> None:
            async with s.scope("giver"):
                while len(runs) == 1 and not (await world.rt.get("s")).waits:
                    await asyncio.sleep(0.001)
                await s.do(give, n=1)

        task = asyncio.create_task(giver())
        answer = await s.ask("continue?")
        await task
        return str(answer)

    view = await world.run(race.bind())
    assert (view.status, view.result) == ("done", "early")


@pytest.mark.slow
async def test_short_timers_are_held_in_place_and_long_ones_park(world: World, clock: ManualClock) -> None:
    runs: list[str] = []

    @program
    async def naps(s: Session, seconds: float) -> str:
        runs.append("run")
        await s.sleep(seconds=seconds)
        return "rested"

    running = asyncio.ensure_future(world.run(naps.bind(seconds=0.5), "short"))
    while not (await world.rt.store.read(due)):
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    assert not running.done()
    clock.advance(seconds=0.5)
    assert (await running).result == "rested"
    assert len(runs) == 1
    view = await world.run(naps.bind(seconds=5), "long")
    assert (view.status, [one.kind for one in view.waits], len(runs)) == ("waiting", ["timer"], 2)
    clock.advance(seconds=5)
    assert (await world.rt.run("long")).result == "rested"


def due(tx: Any) -> list[Any]:
    from perdure.store.moves import wait

    return wait.open_waits(tx, kind="timer")


async def test_a_failing_sibling_cancels_a_wait_and_the_program_continues(world: World) -> None:
    @program
    async def recovers(s: Session) -> str:
        async def question() -> Any:
            async with s.scope("q"):
                return await s.ask("never answered")

        async def fails() -> None:
            async with s.scope("f"):
                while not (await world.rt.get("s")).waits:
                    await asyncio.sleep(0.001)
                raise ValueError

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(question())
                group.create_task(fails())
        except* ValueError:
            pass
        await asyncio.sleep(0.05)  # long enough to count as idle if the run were waiting
        return str(await s.step("after", lambda: "continued"))

    view = await world.run(recovers.bind())
    assert (view.status, view.result, view.waits) == ("done", "continued", ())


async def test_a_sibling_that_fails_does_not_tear_an_act_in_two(world: World) -> None:
    """Cancelled between its dispatch and its settling, an act would be in doubt for nothing."""
    outside = Outside()
    started = asyncio.Event()

    @tool
    async def act(n: int) -> int:
        started.set()
        await asyncio.sleep(0.02)
        outside.happened.append("x")
        return n

    @program
    async def torn(s: Session) -> str:
        async def acting() -> int:
            async with s.scope("acting"):
                return await s.do(act, n=1)

        async def fails() -> None:
            await started.wait()
            raise ValueError

        caught = "nothing"
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(acting())
                group.create_task(fails())
        except* ValueError:
            caught = "caught"
        return caught

    view = await world.run(torn.bind())
    assert (view.status, view.result, outside.happened) == ("done", "caught", ["x"])
    assert (await world.effect()).state == "acknowledged"


async def test_acts_of_a_failed_program_finish_and_begin_nothing_new(world: World) -> None:
    outside = Outside()
    first, second = outside.tool(name="first"), outside.tool(name="second")
    started, failed = asyncio.Event(), asyncio.Event()

    @tool(replay="pure")
    async def slow(n: int) -> int:
        started.set()
        await failed.wait()
        return n

    @program
    async def careless(s: Session) -> None:
        async def background() -> None:
            async with s.scope("background"):
                await s.do(slow, n=1)
                await s.do(second, n=1)

        task = asyncio.create_task(background())
        await s.do(first, n=1)
        await started.wait()
        assert not task.done()
        asyncio.get_running_loop().call_later(0.02, failed.set)
        raise ValueError("the program fails")

    view = await world.run(careless.bind())
    assert (view.status, view.error["type"], len(outside.calls)) == ("failed", "ValueError", 1)
    assert sorted(one.tool for one in await world.effects()) == ["first", "slow"]


async def test_a_failed_program_ends_only_when_its_doubts_are_settled(world: World) -> None:
    outside = Outside("lost")
    act = outside.tool()

    @program
    async def fails(s: Session) -> None:
        async def acting() -> None:
            async with s.scope("acting"):
                await s.do(act, n=1)

        task = asyncio.create_task(acting())
        while not outside.calls:
            await asyncio.sleep(0.001)
        assert not task.done()
        raise ValueError("no")

    view = await world.run(fails.bind())
    assert [one.kind for one in view.waits] == ["doubt"]
    await world.rt.settle((await world.effect()).id, "abandon", by="ada", because="never mind")
    view = await world.again()
    assert (view.status, view.error["type"], view.waits) == ("failed", "ValueError", ())


async def test_a_message_to_the_session_is_no_answer_to_a_question(world: World) -> None:
    @program
    async def answers(s: Session) -> str:
        return str(await s.ask("continue?"))

    await world.run(answers.bind())
    uid = (await world.rt.get("s")).uid
    await world.rt.store.write(inbox.receive(uid, "ada", "m-1", "also check the docs"))
    view = await world.again()
    assert (view.status, len(view.waits)) == ("waiting", 1)
    assert await answered(world) == "yes"


async def test_a_cancelled_caller_is_notified_after_the_act(world: World) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def act() -> None:
        started.set()
        await asyncio.sleep(0.02)
        ended.set()

    @program
    async def acts(s: Session) -> None:
        await s.do(act)

    running = asyncio.ensure_future(world.run(acts.bind()))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (ended.is_set(), (await world.effect()).state) == (True, "acknowledged")
    assert (await world.rt.get("s")).status == "ready"
    assert (await world.again()).status == "done"


class TestWatcher:
    """The task that looks for answers while a run waits in place."""

    @staticmethod
    async def wakes(world: World, raised: Exception) -> SessionView:
        """Run a session whose timer fires in place; firing it raises once."""
        real, fired = world.rt.driver.fire, list[Any]()

        async def fire(due: Any) -> None:
            fired.append(due)
            if len(fired) == 1:
                raise raised
            await real(due)

        @program
        async def naps(s: Session) -> str:
            world.clock.advance(seconds=0.1)
            await s.sleep(seconds=0.1)
            return "rested"

        await world.rt.start(naps.bind(), id="s")
        world.rt.driver.fire = fire  # type: ignore[method-assign]
        running = asyncio.ensure_future(world.rt.run("s"))
        async with asyncio.timeout(60):
            while not fired and not running.done():
                world.clock.advance(seconds=0.1)
                world.rt.store.wakeups.bump()
                await asyncio.sleep(0.01)
            return await running

    async def test_an_unforeseen_error_of_the_watcher_ends_the_run(self, world: World) -> None:
        with pytest.raises(ZeroDivisionError):
            await self.wakes(world, ZeroDivisionError())
        assert (await world.again()).result == "rested"

    async def test_a_timer_that_is_no_longer_due_is_fired_later(self, world: World) -> None:
        assert (await self.wakes(world, IllegalMove("not due yet"))).result == "rested"


DONE: list[int] = []


@tool(replay="idempotent")
def review_mark(n: int) -> int:
    DONE.append(n)
    return n


async def review_rest() -> None:
    await asyncio.sleep(0.2)


@program
async def review_aside(s: Session, seen: bool) -> str:
    async def ask() -> str:
        async with s.scope("aside"):
            answer: str = await s.ask("?")
            return answer

    asked = asyncio.create_task(ask())
    await (s.step("rest", review_rest) if seen else review_rest())
    await s.do(review_mark, 5)
    return await asked


@pytest.mark.slow
@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("seen", [True, False])
async def test_a_concurrent_question_does_not_block_steps(target: str, clock: ManualClock, seen: bool) -> None:
    """A future does not say who will complete it: the program's own line counts as waiting for the lines aside."""
    DONE.clear()
    async with perdure.open(target, clock=clock) as rt:
        await rt.start(review_aside.bind(seen=seen), id="s")
        view = await rt.run("s")
        assert (view.status, DONE) == ("waiting", [5] if seen else [])
        await rt.answer(view.waits[0].id, "yes")
        assert ((await rt.run("s")).result, DONE) == ("yes", [5])
