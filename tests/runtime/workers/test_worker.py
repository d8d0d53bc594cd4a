"""`perdure.Worker`: sessions that are run in the background of a program."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import perdure
from perdure import ConfigError, Session, program
from perdure.testing import ManualClock

TWO = pytest.mark.databases("sqlite", "postgres")
ONE = pytest.mark.databases("sqlite")
STARTED: list[int] = []
RELEASE: list[asyncio.Event] = []


@program
async def worker_double(s: Session, n: int) -> int:
    return await s.step("double", lambda n: n * 2, n)


@program
async def doubles_children(s: Session) -> int:
    return sum(await s.gather(*(s.child(worker_double.bind(n)) for n in range(3))))


@program
async def worker_asks(s: Session) -> str:
    return str(await s.ask("Now?"))


@program
async def sleeps_an_hour(s: Session) -> str:
    await s.sleep(hours=1)
    return "awake"


@program
async def worker_holds(s: Session, n: int) -> int:
    STARTED.append(n)
    await RELEASE[-1].wait()
    return await s.step("end", lambda: 7)


@pytest.fixture(autouse=True)
async def _released() -> None:
    STARTED.clear()
    RELEASE[:] = [asyncio.Event()]


async def until(*found: int) -> None:
    async with asyncio.timeout(60):
        while sorted(STARTED) != sorted(found):
            await asyncio.sleep(0.01)


@TWO
async def test_idle_returns_when_every_session_has_finished_or_waits(target: str) -> None:
    async with perdure.Worker(target, concurrency=2) as worker:
        rt = worker.runtime
        for n in range(4):
            await rt.start(worker_double.bind(n), id=f"d{n}")
        await rt.start(doubles_children.bind(), id="parent")
        await rt.start(worker_asks.bind(), id="q")
        await worker.idle()
        assert [(await rt.get(f"d{n}")).result for n in range(4)] == [0, 2, 4, 6]
        assert (await rt.get("parent")).result == 6
        waiting = await rt.get("q")
        await rt.answer(waiting.waits[0].id, "yes")
        await worker.idle()
        assert (await rt.get("q")).result == "yes"
        assert not worker.failed
    with pytest.raises(ConfigError, match="does not run"):
        await worker.idle()


@TWO
async def test_idle_fires_timers_that_are_due(target: str) -> None:
    clock = ManualClock()
    async with perdure.open(target, clock=clock) as rt, perdure.Worker(rt) as worker:
        await rt.start(sleeps_an_hour.bind(), id="s")
        await worker.idle()
        assert (await rt.get("s")).status == "waiting"
        clock.advance(hours=2)
        await worker.idle()
        assert (await rt.get("s")).result == "awake"


@TWO
async def test_worker_runs_no_more_sessions_than_its_concurrency(target: str) -> None:
    async with perdure.Worker(target, concurrency=2) as worker:
        for n in range(3):
            await worker.runtime.start(worker_holds.bind(n), id=f"h{n}", priority=-n)
        await until(0, 1)
        assert (await worker.runtime.get("h2")).status == "ready"
        RELEASE[-1].set()
        await worker.idle()
        assert (await worker.runtime.get("h2")).result == 7


@TWO
async def test_leaving_the_worker_lets_running_sessions_finish(target: str) -> None:
    async with perdure.open(target) as rt:
        async with perdure.Worker(rt, drain="60s"):
            await rt.start(worker_holds.bind(1), id="s")
            await until(1)
            asyncio.get_running_loop().call_later(0.05, RELEASE[-1].set)
        assert (await rt.get("s")).result == 7


@TWO
async def test_session_that_does_not_finish_in_time_is_given_back(target: str) -> None:
    async with perdure.open(target) as rt:
        async with perdure.Worker(rt, drain=0):
            await rt.start(worker_holds.bind(1), id="s")
            await until(1)
        assert (await rt.get("s")).status == "ready"
        RELEASE[-1].set()
        assert (await rt.complete("s")).result == 7


@ONE
async def test_an_error_in_the_block_gives_sessions_back_at_once(target: str) -> None:
    async def block() -> None:
        async with perdure.Worker(target, drain="1h") as worker:
            await worker.runtime.start(worker_holds.bind(1), id="s")
            await until(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await block()
    async with perdure.open(target) as rt:
        assert (await rt.get("s")).status == "ready"


@ONE
async def test_idle_raises_the_error_that_ended_the_worker(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def damaged(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    async def block(rt: perdure.Runtime) -> None:
        async with perdure.Worker(rt) as worker:
            monkeypatch.setattr(rt.store, "read", damaged)
            await worker.idle()

    async with perdure.open(target) as rt:
        with pytest.raises(ZeroDivisionError):
            await block(rt)


async def test_wrong_options_are_refused(tmp_path: Path) -> None:
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(ConfigError, match="sessions at a time"):
            perdure.Worker("memory:", concurrency=wrong)  # type: ignore[arg-type]
    async with perdure.open("memory:") as rt:
        with pytest.raises(ConfigError, match="its policy"):
            perdure.Worker(rt, policy=lambda _: "allow")
        async with perdure.Worker(rt) as worker:
            with pytest.raises(ConfigError, match="runs already"):
                await worker.__aenter__()
