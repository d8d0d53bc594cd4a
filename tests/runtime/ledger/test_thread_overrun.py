"""Tools whose threads run longer than their run."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import perdure
from perdure import Outcome, Session, program, tool
from perdure.runtime.ledger.attempt_registry import is_acting
from perdure.testing import ManualClock


def test_a_tool_whose_thread_still_runs_is_not_started_again(folder: Path) -> None:
    began, go, calls = threading.Event(), threading.Event(), []

    @tool(replay="probe", inflight=0)
    def review_slow_act() -> int:
        calls.append(1)
        began.set()
        go.wait(120)
        return 1

    @review_slow_act.probe
    def _() -> Outcome:
        again.set()  # the first act is still on its way, and nothing is there yet
        return Outcome.absent()

    @program
    async def review_slow(s: Session) -> int:
        return await s.do(review_slow_act)

    again = threading.Event()
    rt = perdure.open(folder / "a.db")

    async def leave_in_the_middle() -> None:
        await rt.start(review_slow.bind(), id="s")
        rt.task = asyncio.create_task(rt.run("s"))  # type: ignore[attr-defined]
        await asyncio.to_thread(began.wait, 10)  # and then the loop ends, as after a second Ctrl-C

    async def come_back() -> int:
        running = asyncio.create_task(rt.run("s"))
        for _ in range(20):
            if running.done() or len(calls) > 1:
                break
            await asyncio.sleep(0.05)
        made = len(calls)
        go.set()
        await asyncio.wait({running})
        return made

    try:
        asyncio.run(leave_in_the_middle())
        assert asyncio.run(come_back()) == 1
    finally:
        go.set()
        rt.close()


def test_a_tool_that_outlives_its_event_loop_is_not_run_twice(folder: Path) -> None:
    """Not even when the lease is over, and the rule would allow a second request with the same key."""
    began, go, calls, clock = threading.Event(), threading.Event(), [], ManualClock()

    @tool(replay="idempotent")
    def review_left_act() -> int:
        calls.append(1)
        began.set()
        go.wait(120)
        return len(calls)

    @program
    async def review_left(s: Session) -> int:
        return await s.do(review_left_act)

    async def leave_in_the_middle() -> None:
        async with perdure.open(folder / "a.db", clock=clock) as rt:
            await rt.start(review_left.bind(), id="s")
            running = asyncio.create_task(rt.run("s"))
            await asyncio.to_thread(began.wait, 10)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.wait({running})

    async def come_back() -> object:
        async with perdure.open(folder / "a.db", clock=clock) as rt:
            assert is_acting((await rt.get("s")).uid)
            with pytest.raises(perdure.LeaseHeld):
                await rt.run("s")
            go.set()
            while is_acting((await rt.get("s")).uid):
                await asyncio.sleep(0.005)
            return (await rt.run("s")).result

    try:
        asyncio.run(leave_in_the_middle())
        clock.advance(seconds=16)
        assert (asyncio.run(come_back()), calls) == (1, [1])
    finally:
        go.set()


@pytest.mark.slow
def test_a_lease_is_held_exactly_while_a_thread_acts(folder: Path) -> None:
    began, go = threading.Event(), threading.Event()

    @tool
    def review_kept_act() -> int:
        began.set()
        go.wait(120)
        return 1

    @program
    async def review_kept(s: Session) -> int:
        return await s.do(review_kept_act)

    rt = perdure.open(folder / "a.db", lease=0.3)

    async def leave_in_the_middle() -> int:
        await rt.start(review_kept.bind(), id="s")
        rt.task = asyncio.create_task(rt.run("s"))  # type: ignore[attr-defined]
        await asyncio.to_thread(began.wait, 10)
        return (await rt.get("s")).lease_until or 0

    async def come_back(until: int) -> str:
        while (
            (await rt.get("s")).lease_until or 0
        ) <= until + 300_000:  # renewed by the heartbeat, because no run waits here
            await asyncio.sleep(0.01)
        assert (await rt.get("s")).status == "running"
        go.set()
        while (await rt.get("s")).status == "running":
            await asyncio.sleep(0.01)
        assert (await rt.get("s")).lease_holder is None
        return (await rt.run("s")).status

    try:
        assert asyncio.run(come_back(asyncio.run(leave_in_the_middle()))) == "done"
    finally:
        go.set()
        rt.close()


def test_an_act_keeps_only_the_worker_of_its_own_store(folder: Path) -> None:
    began, go = threading.Event(), threading.Event()

    @tool(replay="idempotent")
    def kept_act() -> int:
        began.set()
        go.wait(120)
        return 1

    @program
    async def keeps_acting(s: Session) -> int:
        return await s.do(kept_act)

    async def leave(rt: perdure.Runtime) -> None:
        await rt.start(keeps_acting.bind(), id="s")
        rt.task = asyncio.create_task(rt.run("s"))  # type: ignore[attr-defined]
        await asyncio.to_thread(began.wait, 120)  # and then the loop ends, as after a second Ctrl-C

    def workers(store: str) -> list[Path]:
        return list((folder / f"{store}.db.d" / "workers").glob("w-*"))

    acting, idle = perdure.open(folder / "acting.db"), perdure.open(folder / "idle.db")
    try:
        asyncio.run(leave(acting))
        assert idle.worker.id
        idle.close()
        acting.close()
        assert (len(workers("acting")), len(workers("idle"))) == (1, 0)
    finally:
        go.set()
