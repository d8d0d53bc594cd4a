"""A worker runs what it has claimed: limits, lost answers, and sessions that end their worker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure import Session, program
from perdure.errors import CommitUnknown
from perdure.store.move import Move
from perdure.store.moves import queue
from perdure.store.moves import session as sessions
from perdure.store.moves.claim import Claim

TWO = pytest.mark.databases("sqlite", "postgres")
RUNNING: list[int] = []
MOST: list[int] = []
GO: list[asyncio.Event] = []


async def _count(n: int) -> int:
    """Count how many sessions are in this step at a time."""
    RUNNING.append(n)
    MOST.append(len(RUNNING))
    await asyncio.sleep(0.01)
    RUNNING.remove(n)
    return n


@program
async def claims_counted(s: Session, n: int) -> int:
    return await s.step("count", _count, n)


@program
async def claims_parent(s: Session) -> int:
    return sum(await s.gather(*(s.child(claims_counted.bind(n)) for n in range(1, 4))))


@program
async def claims_waits(s: Session) -> int:
    await GO[-1].wait()
    return await s.step("one", lambda: 1)


@pytest.fixture(autouse=True)
def _empty() -> None:
    RUNNING.clear()
    MOST.clear()
    GO[:] = [asyncio.Event()]


async def limit(rt: perdure.Runtime, **limits: Any) -> None:
    await rt.store.write(queue.set_limits("default", "ada", **limits))


async def until_ended(rt: perdure.Runtime, *ids: str) -> None:
    async with asyncio.timeout(60):
        for id in ids:
            await rt.result(id)


@TWO
async def test_parent_and_children_in_a_queue_of_one_finish(target: str) -> None:
    async with perdure.Worker(target, concurrency=4) as worker:
        await limit(worker.runtime, concurrency=1)
        for n in range(2):
            await worker.runtime.start(claims_parent.bind(), id=f"p{n}")
        await until_ended(worker.runtime, "p0", "p1")
        assert (await worker.runtime.get("p0")).result == 6
    assert max(MOST) == 1


@TWO
async def test_a_paused_queue_runs_nothing_new_until_it_continues(target: str) -> None:
    async with perdure.Worker(target, concurrency=4) as worker:
        rt = worker.runtime
        await rt.start(claims_waits.bind(), id="first")
        async with asyncio.timeout(60):
            while (await rt.get("first")).status != "running":
                await asyncio.sleep(0.01)
        await limit(rt, paused=True)
        await rt.start(claims_counted.bind(1), id="second")
        GO[-1].set()
        await until_ended(rt, "first")  # what runs already is not stopped
        await worker.idle()
        assert (await rt.get("second")).status == "ready"
        await limit(rt, paused=False)
        await until_ended(rt, "second")


@TWO
async def test_sessions_of_a_claim_whose_answer_was_lost_are_adopted(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with perdure.open(target) as rt:
        for n in range(3):
            await rt.start(claims_counted.bind(n), id=f"s{n}")
        write = rt.store.write
        lost: list[Claim] = []

        async def losing(move: Move[Any]) -> Any:
            answer = await write(move)
            if move.name == "claim.claim" and answer.holders and not lost:
                lost.append(answer)
                raise CommitUnknown("The answer was lost.")
            return answer

        monkeypatch.setattr(rt.store, "write", losing)
        async with perdure.Worker(rt, concurrency=3):
            await until_ended(rt, "s0", "s1", "s2")
        assert len(lost[0].holders) == 3
        found = [await rt.store.read(sessions.get_by_id, f"s{n}") for n in range(3)]
        assert [one.lease_epoch & 0xFFFF for one in found] == [1, 1, 1]


@TWO
async def test_a_claimed_session_is_read_three_times(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its program runs, for those who wait for its end, and for the notice of the worker."""
    async with perdure.open(target) as rt:
        uid = (await rt.start(claims_counted.bind(1), id="one")).uid
        read, reads = rt.store.read, []

        async def counting(query: Any, *given: Any, **options: Any) -> Any:
            reads.extend([query] if uid in given else [])
            return await read(query, *given, **options)

        monkeypatch.setattr(rt.store, "read", counting)
        async with perdure.Worker(rt) as worker:
            await worker.idle()
        assert len(reads) == 3
        assert (await rt.get("one")).status == "done"


@TWO
async def test_a_worker_takes_sessions_of_its_queues_only(target: str) -> None:
    async with perdure.open(target) as rt:
        await rt.start(claims_counted.bind(1), id="day", queue="day")
        await rt.start(claims_counted.bind(2), id="night", queue="night")
        async with perdure.Worker(rt, queues=["night"]) as worker:
            await until_ended(rt, "night")
            await worker.idle()
            assert (await rt.get("day")).status == "ready"


@TWO
async def test_a_run_that_was_asked_for_needs_no_slot(target: str) -> None:
    async with perdure.open(target) as rt:
        await limit(rt, per_key=1)
        await rt.start(claims_waits.bind(), id="first", key="k")
        await rt.start(claims_counted.bind(2), id="second", key="k")
        async with perdure.Worker(rt, concurrency=4):
            async with asyncio.timeout(60):
                while (await rt.get("second")).status != "waiting":
                    await asyncio.sleep(0.01)
            assert [one.kind for one in (await rt.get("second")).waits] == ["slot"]
            assert (await rt.run("second")).result == 2
            GO[-1].set()
            await until_ended(rt, "first")


@TWO
async def test_a_parent_is_woken_if_the_worker_of_its_child_died_first(target: str) -> None:
    async with perdure.open(target) as rt:
        await limit(rt, concurrency=1)
        await rt.start(claims_parent.bind(), id="parent")
        write = rt.requests.wake_parent

        async def dies(uid: str) -> None:
            """The worker that ended the child does nothing more for it."""

        rt.requests.wake_parent = dies  # type: ignore[method-assign]
        async with perdure.Worker(rt, concurrency=1), asyncio.timeout(60):
            while MOST != [1, 1, 1] or any([one.status != "waiting" async for one in rt.sessions(status="running")]):
                await asyncio.sleep(0.01)
        assert (await rt.get("parent")).status == "waiting"
        rt.requests.wake_parent = write  # type: ignore[method-assign]
        async with perdure.Worker(rt, concurrency=1):
            await until_ended(rt, "parent")


@TWO
async def test_many_claimed_sessions_keep_their_leases_until_they_begin(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with perdure.open(target) as rt:
        for n in range(5):
            await rt.start(claims_counted.bind(n), id=f"s{n}")
        monkeypatch.setattr(rt.driver, "run_claimed", lambda *_: asyncio.Event().wait())
        async with perdure.Worker(rt, concurrency=5, drain=0):
            async with asyncio.timeout(60):
                while len(rt.heartbeat.held) < 5:
                    await asyncio.sleep(0.01)
            assert {holder.uid for holder in rt.heartbeat.held} == {(await rt.get(f"s{n}")).uid for n in range(5)}
