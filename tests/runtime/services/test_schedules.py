"""The service of schedules: several processes, killed at any moment, start one session for each tick."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

import perdure
from perdure import Session, program
from perdure.domain.schedule_times import ticks
from perdure.runtime.services.schedules import ScheduleService
from tests.seed import kill_points

pytestmark = pytest.mark.databases("sqlite", "postgres")
SCHEDULER = """
import asyncio, itertools, os, signal, sys, perdure
from perdure import faults
from perdure.runtime.services.schedules import ScheduleService

points, kill_at = itertools.count(1), int(sys.argv[2])

def reach(_):
    if next(points) == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with perdure.open(sys.argv[1]) as rt:
        print("ready", flush=True)
        faults.arm(reach)
        await ScheduleService(rt).run()

asyncio.run(main())
"""


@program
async def scheduled_report(s: Session) -> None:
    return None


@contextmanager
def scheduler(target: str, kill_at: int = 0) -> Iterator[subprocess.Popen[str]]:
    """A scheduler in a process of its own, which is killed at the given fault point."""
    command = [sys.executable, "-c", SCHEDULER, target, str(kill_at)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.slow
async def test_killed_schedulers_start_one_session_for_each_tick(target: str) -> None:
    async with perdure.open(target) as rt:
        made = await rt.add_schedule("job", scheduled_report.bind(), every="1s", overlap="cancel", catch_up="all")
        with scheduler(target) as steady:
            for kill_at in kill_points(15, every=6):
                with scheduler(target, kill_at) as victim:
                    assert await asyncio.to_thread(victim.wait, 60) == -signal.SIGKILL
            (before,) = [one async for one in rt.schedules()]
            last = rt.store.clock.now()

            async def is_handled() -> bool:
                (now,) = [one async for one in rt.schedules()]
                return (now.last_tick or 0) >= last

            while not await is_handled():
                await asyncio.sleep(0.05)
            assert steady.poll() is None
        (now,) = [one async for one in rt.schedules()]
        found = sorted([one.scheduled_at or 0 async for one in rt.sessions()])
        assert found == list(ticks(made, made.last_tick or 0, now.last_tick or 0))
        assert (before.version, now.outcomes.get("dropped"), now.outcomes.get("refused")) == (1, None, None)


@pytest.mark.databases("sqlite")
async def test_service_wakes_for_a_new_schedule_and_is_idle_otherwise(target: str) -> None:
    async with perdure.open(target) as rt, perdure.open(target) as other:
        reads: list[str] = []
        read = rt.store.read

        async def counted(query, *given, **named):  # type: ignore[no-untyped-def]
            reads.append(query.__name__)
            return await read(query, *given, **named)

        rt.store.read = counted  # type: ignore[method-assign]
        service = asyncio.ensure_future(ScheduleService(rt).run())
        try:
            async with asyncio.timeout(30):
                while len(reads) < 3:
                    await asyncio.sleep(0.02)
            await asyncio.sleep(0.3)
            idle = len(reads)
            assert idle <= 6  # one pass, and a second one when its wake-ups are delivered
            await other.add_schedule("job", scheduled_report.bind(), every="1s")
            async with asyncio.timeout(30):
                while not [one async for one in other.sessions()]:
                    await asyncio.sleep(0.02)
        finally:
            service.cancel()
            with suppress(asyncio.CancelledError):
                await service


@pytest.mark.databases("sqlite")
async def test_worker_alone_starts_and_runs_the_sessions_of_a_schedule(target: str) -> None:
    async with perdure.open(target) as rt, perdure.Worker(rt):
        await rt.add_schedule("job", scheduled_report.bind(), every="1s")
        async with asyncio.timeout(30):
            while not (done := [one async for one in rt.sessions(status="done")]):
                await asyncio.sleep(0.02)
        assert {one.schedule_uid for one in done} == {(await anext(rt.schedules())).uid}
