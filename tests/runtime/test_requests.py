"""Requests that a holder honours between acts: pause, cancel; and the program's own: restart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from perdure import ConfigError, IllegalMove, Session, faults, program, tool
from perdure.runtime.run.records import load
from perdure.store.move import Move
from perdure.store.moves import session_end, wait
from tests.runtime.support.scripted_world import GATE, Outside, World

pytestmark = pytest.mark.databases("sqlite", "postgres")
MEMORY = pytest.mark.databases("memory")


def same(n: int) -> int:
    return n


def until(world: World) -> Callable[[int], Awaitable[int]]:
    """A step that lasts until the session asks for so many things; while it does, nothing is unwound."""

    async def asked(count: int) -> int:
        while len((await world.rt.get("s")).waits) < count:
            await asyncio.sleep(0.001)
        return count

    return asked


@program
async def asks(s: Session) -> str:
    return str(await s.ask("continue?"))


@MEMORY
async def test_a_paused_session_stops_between_acts_and_can_be_resumed(world: World) -> None:
    outside = Outside()

    @tool
    async def act(n: int) -> int:
        outside.happened.append(str(n))
        if n == 1:
            await world.rt.pause("s")
        return n

    @program
    async def three(s: Session) -> list[int]:
        return [await s.do(act, n=n) for n in range(4)]

    view = await world.run(three.bind())
    assert ([one.kind for one in view.waits], outside.happened) == (["paused"], ["0", "1"])
    assert (await world.again()).status == "waiting"
    await world.rt.resume("s")
    view = await world.again()
    assert (view.result, outside.happened, view.waits) == ([0, 1, 2, 3], ["0", "1", "2", "3"], ())


@MEMORY
async def test_a_program_of_steps_alone_can_be_cancelled_between_them(world: World) -> None:
    ran: list[int] = []

    async def compute(n: int) -> int:
        ran.append(n)
        if n == 2:
            await world.rt.cancel("s")
        return n

    @program
    async def steps(s: Session) -> None:
        for n in range(100):
            await s.step("n", compute, n)
            await s.remember("n", n)

    assert ((await world.run(steps.bind())).status, ran) == ("cancelled", [0, 1, 2])


async def test_cancel_refuses_what_is_planned_and_ends_the_session(world: World) -> None:
    act = Outside().tool(gate=GATE)

    @program
    async def gated(s: Session) -> None:
        await asyncio.gather(s.do(act, n=1), s.ask("continue?"), s.sleep(hours=1))

    view = await world.run(gated.bind())
    assert len(view.waits) == 3
    await world.rt.cancel("s", by="ada")
    view = await world.again()
    (approval,) = [one async for one in world.rt.approvals()]
    assert (view.status, view.waits, (await world.effect()).state) == ("cancelled", (), "refused")
    assert approval.decision == "expired"
    with pytest.raises(IllegalMove):
        await world.rt.cancel("s")


async def test_cancel_waits_until_a_doubt_is_settled(world: World) -> None:
    outside = Outside("lost")
    act, gated = outside.tool(), outside.tool(name="gated", gate=GATE)

    @program
    async def doubtful(s: Session) -> None:
        await asyncio.gather(s.do(act, n=1), s.do(gated, n=2))

    await world.run(doubtful.bind())
    await world.rt.cancel("s")
    view = await world.again()
    first, second = await world.effects()
    assert (view.status, first.state, second.state) == ("waiting", "dispatched", "refused")
    assert ([one.kind for one in view.waits if one.kind != "approval"]) == ["doubt"]
    await world.rt.settle(first.id, "happened", by="ada", because="seen", result=1)
    view = await world.again()
    assert (view.status, view.waits) == ("cancelled", ())


class Interruption:
    """Makes another process's move right after the n-th group of moves was answered."""

    def __init__(self, world: World, move: Move[Any], after: int) -> None:
        self._world = world
        self._move = move
        self._left = after
        self._loop = asyncio.get_running_loop()
        self.came = asyncio.Event()

    def __call__(self, point: str) -> None:
        if point == "answer.after":
            self._left -= 1
            if self._left == 0:
                faults.disarm()
                asyncio.run_coroutine_threadsafe(self.request(), self._loop)

    async def request(self) -> None:
        faults.disarm()
        await self._world.rt.store.write(self._move)
        self.came.set()

    async def happen(self) -> None:
        """Come now, if the run was over before its moment."""
        if self._left > 0:
            await self.request()
        await self.came.wait()


@MEMORY
@pytest.mark.parametrize("place", range(1, 14))
async def test_a_cancel_during_parking_is_not_lost(world: World, place: int) -> None:
    """Every place where a request can come in is tried: after each move of a run that would park."""
    started = await world.rt.start(asks.bind(), id="s")
    interruption = Interruption(world, session_end.cancel(started.uid, "ada"), place)
    faults.arm(interruption)
    await world.again()
    await interruption.happen()
    assert (await world.rt.get("s")).status in ("cancelled", "ready"), "it waits, with a request to stop"
    assert (await world.again()).status == "cancelled"


@MEMORY
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a question"])
@pytest.mark.parametrize("place", range(1, 9))
async def test_a_resume_is_not_lost_while_the_session_parks(world: World, place: int, beside: bool) -> None:
    """The pause is taken back after each move of the run: then nothing but the question holds the session."""
    outside = Outside()

    @tool
    async def act(n: int) -> int:
        outside.happened.append(str(n))
        if n == 1:
            await world.rt.pause("s")
            faults.arm(interruption)
        return n

    @program
    async def acts(s: Session) -> None:
        async def line() -> None:
            async with s.scope("line"):
                for n in range(3):
                    await s.do(act, n=n)

        await asyncio.gather(line(), *([s.ask("enough?")] if beside else []))

    started = await world.rt.start(acts.bind(), id="s")
    interruption = Interruption(world, wait.resume(started.uid, "ada"), place)
    await world.again()
    await interruption.happen()
    view = await world.again()
    assert outside.happened == ["0", "1", "2"], f"it waits for {[one.kind for one in view.waits]}"
    assert [one.kind for one in view.waits] == (["input"] if beside else [])
    world.verify()


@MEMORY
async def test_a_session_without_code_can_be_cancelled(world: World) -> None:
    from perdure.runtime.definitions.program import PROGRAMS

    await world.rt.start(asks.bind(), id="s")
    gone = PROGRAMS.pop("asks")
    assert [one.kind for one in (await world.again()).waits] == ["program"]
    await world.rt.cancel("s")
    assert (await world.again()).status == "cancelled"
    PROGRAMS["asks"] = gone


async def test_a_restart_begins_anew_with_typed_arguments_and_bounds_the_read(world: World) -> None:
    outside = Outside()
    act = outside.tool()

    @program
    async def loops(s: Session, round: int = 0, seen: tuple[int, ...] = ()) -> list[Any]:
        assert isinstance(seen, tuple)
        for n in range(20):
            await s.step("n", same, n)
        await s.do(act, n=1)
        if round < 3:
            await s.restart(round=round + 1, seen=(*seen, round))
        answer = await s.ask("enough?")
        return [round, list(seen), answer]

    view = await world.run(loops.bind())
    assert (view.status, view.restart_number, view.restart_arguments) == ("waiting", 3, {"round": 3, "seen": [0, 1, 2]})
    records = await world.rt.store.read(load, view.uid)
    assert (len(records.steps), len(records.effects), len(records.waits)) == (20, 1, 1)
    assert len(set(outside.keys)) == 4, "the same call after a restart is another call"
    await world.rt.answer(view.waits[0].id, "yes")
    assert (await world.again()).result == [3, [0, 1, 2], "yes"]


@MEMORY
async def test_a_restart_with_wrong_arguments_is_refused_where_it_is_called(world: World) -> None:
    @program
    async def wrong(s: Session, n: int) -> str:
        try:
            await s.restart(n="no number")
        except ConfigError as error:
            return error.code

    assert (await world.run(wrong.bind(n=1))).result == "config"


async def test_a_restart_leaves_no_question_behind(world: World) -> None:
    gated = Outside().tool(gate=GATE)
    asked = until(world)

    @program
    async def asks_and_restarts(s: Session, round: int = 0) -> str:
        if round == 0:
            group = [asyncio.create_task(one) for one in (s.do(gated, n=1), s.ask("continue?"))]
            await s.step("look", asked, 2)
            assert len(group) == 2
            await s.restart(round=1)
        return "second round"

    view = await world.run(asks_and_restarts.bind())
    assert (view.result, view.waits, (await world.effect()).state) == ("second round", (), "refused")


async def test_nothing_is_asked_any_more_when_a_session_has_ended(world: World) -> None:
    gated = Outside().tool(gate=GATE)
    asked = until(world)

    @program
    async def leaves(s: Session) -> str:
        tasks = [asyncio.create_task(one) for one in (s.do(gated, n=1), s.ask("continue?"), s.sleep(hours=9))]
        await s.step("look", asked, 3)
        assert len(tasks) == 3
        return "enough"

    view = await world.run(leaves.bind())
    assert (view.status, view.waits, (await world.effect()).state) == ("done", (), "refused")
    assert [one async for one in world.rt.approvals(decision="waiting")] == []


@MEMORY
async def test_an_empty_id_is_refused(world: World) -> None:
    """An empty id would otherwise be a new session or message each time."""

    @program
    async def reads(s: Session) -> str:
        return str(await s.receive())

    await world.rt.start(reads.bind(), id="s")
    for call in (
        world.rt.start(reads.bind(), id=""),
        world.rt.fork("s", id=""),
        world.rt.send("s", "hello", message_id=""),
    ):
        with pytest.raises(ConfigError, match="id '' is not a valid name"):
            await call
