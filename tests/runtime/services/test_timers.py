"""Timers and approvals: waits are resolved when they are due, by one statement a look."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import Gate, NotFound, Session, program, tool
from perdure.clock import SECOND
from perdure.runtime.services.registry import make_services, run_service
from perdure.runtime.services.service import Service
from perdure.runtime.services.timers import Approvals, Timers
from tests.runtime.support.scripted_world import World

MEMORY = pytest.mark.databases("memory")
HOUR = 3600 * SECOND


@program
async def service_sleeps(s: Session, hours: int) -> str:
    await s.sleep(hours=hours)
    return "awake"


@tool(replay="pure", gate=Gate("timed", expires="2h"))
async def guarded_by_time(path: str) -> str:
    return path


@program
async def service_asks(s: Session) -> str:
    return str(await s.do(guarded_by_time, path="a"))


async def test_waits_are_resolved_when_they_are_due(world: World) -> None:
    await world.run(service_sleeps.bind(1), id="one")
    await world.run(service_sleeps.bind(3), id="three")
    timers = Timers(world.rt)
    await timers.look_if_due()
    assert timers.next_due == world.clock.now() + HOUR
    world.clock.advance(hours=1)
    await timers.look_if_due()
    assert ((await world.rt.get("one")).status, (await world.rt.get("three")).status) == ("ready", "waiting")
    assert timers.next_due == world.clock.now() + 2 * HOUR


async def test_each_service_has_its_own_waits(world: World) -> None:
    await world.run(service_asks.bind(), id="asks")
    await world.run(service_sleeps.bind(1), id="sleeps")
    world.clock.advance(hours=5)
    approvals = Approvals(world.rt)
    await approvals.look_if_due()
    assert ((await world.rt.get("asks")).status, (await world.rt.get("sleeps")).status) == ("ready", "waiting")
    await Timers(world.rt).look_if_due()
    assert (await world.rt.get("sleeps")).status == "ready"


@MEMORY
async def test_a_wait_that_cannot_be_resolved_is_reported_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = await world.run(service_sleeps.bind(1), id="bad")
    await world.run(service_sleeps.bind(1), id="good")
    fire, reported, tried = world.rt.driver.fire, list[str](), list[str]()

    async def fails_for_one(due: Any) -> None:
        tried.append(due.session_uid)
        if due.session_uid == bad.uid:
            raise ValueError("damaged")
        await fire(due)

    monkeypatch.setattr(world.rt.driver, "fire", fails_for_one)
    timers = Timers(world.rt, lambda session, error: reported.append(f"{session} {error}"))
    world.clock.advance(hours=1)
    for _ in range(3):
        world.rt.store.wakeups.bump()
        await timers.look_if_due()
    assert (await world.rt.get("good")).status == "ready"
    assert tried.count(bad.uid) == 1
    world.clock.advance(seconds=61)
    await timers.look_if_due()
    assert tried.count(bad.uid) == 2
    assert reported == [f"{bad.uid} damaged"]


@MEMORY
async def test_a_new_timer_wakes_the_service(world: World) -> None:
    looks: list[int | None] = []

    class Watched(Timers):
        async def look(self) -> int | None:
            looks.append(await super().look())
            return looks[-1]

    running = asyncio.ensure_future(Watched(world.rt).run())
    await _until(lambda: looks == [None])
    await world.run(service_sleeps.bind(1))
    await _until(lambda: looks[-1] is not None)
    running.cancel()
    assert looks[-1] == world.clock.now() + HOUR


@MEMORY
async def test_an_error_does_not_end_a_service(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.runtime.services.service.RETRY", 0.01)
    tries: list[int] = []

    class Failing(Service):
        name = "failing"
        topics = ()

        async def look(self) -> int | None:
            tries.append(1)
            if len(tries) < 3:
                raise ValueError("not now")
            return None

    running = asyncio.ensure_future(Failing(world.rt).run())
    await _until(lambda: len(tries) == 3)
    assert not running.done()
    running.cancel()


@MEMORY
async def test_an_unknown_service_is_refused(world: World) -> None:
    with pytest.raises(NotFound, match="no service 'nothing'"):
        await run_service(world.rt, "nothing")


@MEMORY
async def test_a_group_ends_its_services_with_the_block(world: World) -> None:
    async with make_services(world.rt) as group:
        await group.look_if_due()
    assert all(task.done() for task in group._tasks)


async def _until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)
