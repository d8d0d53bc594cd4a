"""Several callers that wait for one session share its run."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import perdure
from perdure import LeaseHeld, Runtime, Session, SessionWaiting, program

TWO = pytest.mark.databases("sqlite", "postgres")
ONE = pytest.mark.databases("sqlite")
RUNS: list[str] = []
RELEASE: list[asyncio.Event] = []


@program
async def waits_for_release(s: Session) -> int:
    RUNS.append("begun")
    try:
        await RELEASE[-1].wait()
        return await s.step("end", lambda: 7)
    except asyncio.CancelledError:
        RUNS.append("cancelled")
        raise


@program
async def waits_and_fails(s: Session) -> None:
    await RELEASE[-1].wait()
    raise ZeroDivisionError


@program
async def waits_and_asks(s: Session) -> str:
    await RELEASE[-1].wait()
    return str(await s.ask("Now?"))


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RUNS.clear()
    RELEASE[:] = [asyncio.Event()]


async def until_begun(times: int = 1) -> None:
    async with asyncio.timeout(60):
        while RUNS.count("begun") < times:
            await asyncio.sleep(0.01)


async def start(rt: Runtime, bound: perdure.Bound[Any], callers: int) -> list[asyncio.Task[perdure.SessionView]]:
    await rt.start(bound, id="s")
    return [asyncio.ensure_future(rt.complete("s")) for _ in range(callers)]


@TWO
async def test_all_callers_get_the_end_of_one_run(target: str) -> None:
    async with perdure.open(target) as rt:
        callers = await start(rt, waits_for_release.bind(), 5)
        await until_begun()
        RELEASE[-1].set()
        callers.append(asyncio.ensure_future(rt.run("s")))
        assert [view.result for view in await asyncio.gather(*callers)] == [7] * 6
        assert RUNS == ["begun"]


@ONE
async def test_all_callers_learn_that_it_failed_or_waits(target: str) -> None:
    async with perdure.open(target) as rt:
        callers = await start(rt, waits_and_fails.bind(), 3)
        RELEASE[-1].set()
        assert [view.status for view in await asyncio.gather(*callers)] == ["failed"] * 3
        await rt.start(waits_and_asks.bind(), id="q")
        for end in await asyncio.gather(rt.complete("q"), rt.complete("q"), return_exceptions=True):
            assert isinstance(end, SessionWaiting)


@TWO
async def test_cancelled_caller_leaves_the_run_to_the_others(target: str) -> None:
    async with perdure.open(target) as rt:
        first, second, third = await start(rt, waits_for_release.bind(), 3)
        await until_begun()
        for caller in (first, third):
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
        assert (await rt.get("s")).status == "running"
        RELEASE[-1].set()
        assert ((await second).result, RUNS) == (7, ["begun"])


@TWO
async def test_last_caller_gives_the_session_back(target: str) -> None:
    async with perdure.open(target) as rt:
        callers = await start(rt, waits_for_release.bind(), 2)
        await until_begun()
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        assert ((await rt.get("s")).status, RUNS) == ("ready", ["begun", "cancelled"])
        RELEASE[-1].set()
        assert (await rt.complete("s")).result == 7


@ONE
async def test_caller_that_comes_while_it_is_given_back_starts_another_run(target: str) -> None:
    async with perdure.open(target) as rt:
        (first,) = await start(rt, waits_for_release.bind(), 1)
        await until_begun()
        first.cancel()
        later = asyncio.ensure_future(rt.complete("s"))
        await asyncio.gather(first, return_exceptions=True)
        await until_begun(2)
        RELEASE[-1].set()
        assert (await later).result == 7


@ONE
async def test_run_that_is_cancelled_before_it_begins_blocks_nothing(target: str) -> None:
    async with perdure.open(target) as rt:
        for yields in range(12):
            (caller,) = await start(rt, waits_for_release.bind(), 1)
            for _ in range(yields):
                await asyncio.sleep(0)
            caller.cancel()
            await asyncio.gather(caller, return_exceptions=True)
        RELEASE[-1].set()
        assert (await rt.complete("s")).result == 7


@ONE
async def test_another_runtime_still_finds_the_session_held(target: str) -> None:
    async with perdure.open(target) as rt, perdure.open(target) as other:
        (first,) = await start(rt, waits_for_release.bind(), 1)
        await until_begun()
        with pytest.raises(LeaseHeld):
            await other.complete("s")
        RELEASE[-1].set()
        assert (await first).result == 7


@ONE
async def test_event_loop_of_another_thread_does_not_join(target: str) -> None:
    async with perdure.open(target) as rt:
        (first,) = await start(rt, waits_for_release.bind(), 1)
        await until_begun()
        with ThreadPoolExecutor(1) as threads, pytest.raises(LeaseHeld):
            await asyncio.wrap_future(threads.submit(asyncio.run, rt.complete("s")))
        RELEASE[-1].set()
        assert (await first).result == 7
