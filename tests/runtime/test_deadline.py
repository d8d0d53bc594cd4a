"""Deadlines of sessions: they are cancelled with a reason, children too, and nothing else is."""

from __future__ import annotations

import asyncio

import pytest

from perdure import Session, SessionFailed, program
from perdure.clock import SECOND
from perdure.runtime.services.timers import Timers
from perdure.store.moves import session_end
from tests.runtime.support.scripted_world import Outside, World

pytestmark = pytest.mark.databases("sqlite", "postgres")


async def test_a_waiting_session_ends_at_its_deadline_with_its_children(world: World) -> None:
    @program
    async def asking(s: Session) -> str:
        return str(await s.ask("Which?"))

    @program
    async def parent(s: Session) -> str:
        return await s.child(asking.bind())

    due = world.clock.now() + 60 * SECOND
    assert (await world.run(parent.bind(), timeout="1m")).status == "waiting"
    timers = Timers(world.rt)
    await timers.look_if_due()
    assert timers.next_due == due
    world.clock.advance(seconds=59)
    await world.rt.requests.expire_deadline((await world.rt.get("s")).uid)
    assert (await world.rt.get("s")).status == "waiting"
    world.clock.advance(seconds=1)
    await timers.look_if_due()
    found = [one async for one in world.rt.sessions()]
    assert [(one.status, one.error["code"]) for one in found] == [("cancelled", "deadline-passed")] * 2
    assert timers.next_due is None
    with pytest.raises(SessionFailed, match="had not ended at its deadline"):
        await world.rt.result("s")
    for one in found:
        world.verify(one.id)


async def test_a_deadline_does_not_change_a_session_that_has_ended(world: World) -> None:
    @program
    async def quick(s: Session) -> int:
        return 1

    done = await world.run(quick.bind(), "done", timeout="1m")
    stopped = await world.rt.start(quick.bind(), id="stopped", timeout="1m")
    await world.rt.cancel("stopped")
    world.clock.advance(seconds=61)
    for one in (done, stopped):
        await world.rt.requests.expire_deadline(one.uid)
        await world.rt.store.write(session_end.expire_deadline(one.uid, "timer"))
    assert (await world.rt.get("done")).result == 1
    assert (await world.rt.get("stopped")).error["code"] == "cancelled"


async def test_a_retry_after_the_deadline_is_not_cancelled_by_it(world: World) -> None:
    broken = True

    @program
    async def flaky(s: Session) -> int:
        if broken:
            raise ValueError("broken")
        return 1

    @program
    async def parent(s: Session) -> int:
        return await s.child(flaky.bind())

    assert (await world.run(parent.bind(), timeout="1m")).status == "failed"
    world.clock.advance(seconds=61)
    broken = False
    await world.rt.retry("s")
    await Timers(world.rt).look_if_due()
    assert (await world.rt.complete("s")).result == 1
    world.verify("s")


async def test_a_late_deadline_is_not_applied_after_the_clock_was_set_back(world: World) -> None:
    @program
    async def quick(s: Session) -> int:
        return 1

    made = await world.rt.start(quick.bind(), id="s", timeout="1m")
    assert await world.rt.store.write(session_end.expire_deadline(made.uid, "timer")) is False
    assert (await world.rt.get("s")).cancel_requested_at is None


async def test_a_direct_run_stops_at_its_deadline_between_acts(world: World) -> None:
    outside, passed = Outside(), asyncio.Event()
    act = outside.tool()

    @program
    async def slow(s: Session) -> None:
        await s.do(act, n=1)
        world.clock.advance(seconds=1)
        await passed.wait()
        await s.do(act, n=2)

    async def release() -> None:
        async for line in world.rt.events("s", follow=True):
            if line.kind == "cancel.requested":
                assert line.body["because"] == "deadline-passed"
                passed.set()
                return

    await world.rt.start(slow.bind(), id="s", timeout=0.2)
    ended, _ = await asyncio.gather(world.rt.complete("s"), release())
    assert (ended.status, ended.error["code"], len(outside.calls)) == ("cancelled", "deadline-passed", 1)


async def test_complete_ends_a_session_that_sleeps_past_its_deadline(world: World) -> None:
    @program
    async def sleeper(s: Session) -> None:
        await s.sleep("1h")

    await world.rt.start(sleeper.bind(), id="s", timeout="1m")
    assert (await world.again("s")).status == "waiting"
    world.clock.advance(seconds=61)
    assert (await world.rt.complete("s")).error["code"] == "deadline-passed"
