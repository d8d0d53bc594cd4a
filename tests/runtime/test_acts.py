"""The act itself: time limits, threads, heartbeats, leases that are lost, and a store that is away."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from perdure import Call, LeaseHeld, LeaseLost, NotDone, Session, faults, program, tool
from perdure.errors import IllegalMove, StoreUnavailable
from perdure.runtime.runtime import Runtime
from perdure.store import lease
from perdure.store.store import open_store
from tests.runtime.world import Outside, World

MEMORY = pytest.mark.databases("memory")
BOTH = pytest.mark.databases("sqlite", "postgres")


@MEMORY
async def test_an_async_tool_that_overruns_is_cancelled_and_its_outcome_unknown(world: World) -> None:
    ended: list[str] = []

    @tool(timeout="10ms")
    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    @program
    async def waits(s: Session) -> None:
        await s.do(hangs)

    view = await world.run(waits.bind())
    effect = await world.effect()
    assert ([one.kind for one in view.waits], ended) == (["doubt"], ["cancelled"])
    (attempt,) = await world.attempts(effect)
    assert (attempt.outcome, attempt.error["type"], attempt.ended_at is not None) == ("unknown", "TimeoutError", True)


@MEMORY
async def test_an_async_tool_that_answers_although_cancelled_is_believed(world: World) -> None:
    @tool(timeout="10ms")
    async def stubborn() -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return 7
        return 0

    @program
    async def waits(s: Session) -> int:
        return await s.do(stubborn)

    assert (await world.run(waits.bind())).result == 7


@BOTH
async def test_nothing_moves_while_an_overrun_thread_runs_and_its_late_result_counts(world: World) -> None:
    go = threading.Event()
    ran: list[int] = []

    @tool(timeout="10ms", replay="idempotent", retry=5)
    def blocks(n: int) -> int:
        ran.append(n)
        assert go.wait(20)
        return n

    @program
    async def waits(s: Session) -> int:
        return await s.do(blocks, n=3)

    running = asyncio.ensure_future(world.run(waits.bind()))
    try:
        while "effect.unknown" not in (await kinds(world)):
            await asyncio.sleep(0.005)
        effect = await world.effect()
        (attempt,) = await world.attempts(effect)
        assert (attempt.outcome, attempt.ended_at, effect.state) == ("unknown", None, "dispatched")
        other = world.open()
        with pytest.raises(LeaseHeld):
            await other.run("s")
        other.close()
    finally:
        go.set()
    assert ((await running).result, ran) == (3, [3])
    assert (await world.effect()).state == "acknowledged"


async def kinds(world: World) -> list[str]:
    return [] if not [one async for one in world.rt.sessions()] else await world.kinds()


@MEMORY
async def test_only_proof_makes_failed(world: World) -> None:
    """An exception is no proof, a result of any kind is a result, and an error the tool declares safe is proof."""

    @tool(safe_errors=(ConnectionRefusedError,), retry=1)
    def reach(how: str) -> int:
        if how == "refused":
            raise ConnectionRefusedError("nobody listens")
        if how == "raised":
            raise ConnectionResetError("in the middle")
        return 1

    @program
    async def tries(s: Session) -> str:
        told = ""
        try:
            await s.do(reach, how="refused")
        except NotDone as error:
            told = str(error)
        assert await s.do(reach, how="exit 1") == 1
        await s.do(reach, how="raised")
        return told

    view = await world.run(tries.bind())
    assert [one.state for one in await world.effects()] == ["failed", "acknowledged", "dispatched"]
    assert [one.kind for one in view.waits] == ["doubt"]


@pytest.mark.databases("sqlite")
async def test_a_tool_that_blocks_the_loop_keeps_its_lease(target: str) -> None:
    """The heart has a thread of its own. The lease is far shorter than the act."""
    rt, other = Runtime(open_store(target), lease=0.2), Runtime(open_store(target), lease=0.2)

    @tool
    async def blocks(call: Call) -> int:
        watcher.start()
        time.sleep(0.5)  # what no tool should do, and some will
        return call.attempt

    @program
    async def slow(s: Session) -> int:
        return await s.do(blocks)

    await rt.start(slow.bind(), id="s")
    refused: list[str] = []

    def intrude() -> None:
        until = time.monotonic() + 0.4
        while time.monotonic() < until:
            try:
                other.store.write_now(lease.acquire(uid, "intruder", nonce="n-1", ttl=1))
                refused.append("let in")
            except LeaseHeld:
                refused.append("held")
            except IllegalMove:  # it is over
                return
            time.sleep(0.02)

    uid = (await rt.get("s")).uid
    watcher = threading.Thread(target=intrude)
    view = await rt.run("s")
    await asyncio.to_thread(watcher.join)
    rt.close()
    other.close()
    assert (view.result, set(refused)) == (1, {"held"})


@BOTH
async def test_a_lost_lease_unwinds_the_program_whatever_it_catches(world: World) -> None:
    outside = Outside()
    act = outside.tool()
    caught: list[str] = []

    @program
    async def stubborn(s: Session) -> str:
        for n in range(5):
            try:
                await s.do(act, n=n)
                if n == 1:
                    move = lease.take_over(
                        s.uid, "somebody-else", nonce="n-2", ttl=60_000_000, because="a person insists"
                    )
                    await world.rt.store.write(move)
            except Exception as error:
                caught.append(type(error).__name__)
        return "went on"

    with pytest.raises(LeaseLost):
        await world.run(stubborn.bind())
    assert (caught, len(outside.calls)) == ([], 2)
    now = await world.rt.get("s")
    assert (now.status, now.lease_holder) == ("running", "somebody-else")


@BOTH
async def test_an_outcome_is_taken_though_the_lease_moved_on(world: World) -> None:
    outside = Outside()

    @tool
    async def act(n: int) -> int:
        move = lease.take_over(uid, "somebody-else", nonce="n-2", ttl=60_000_000, because="a person insists")
        await world.rt.store.write(move)
        outside.happened.append("x")
        return 7

    @program
    async def acts(s: Session) -> int:
        return await s.do(act, n=1) + await s.do(act, n=2)

    uid = (await world.rt.start(acts.bind(), id="s")).uid
    with pytest.raises(LeaseLost):
        await world.again()
    assert ((await world.effect()).state, outside.happened) == ("acknowledged", ["x"])


@BOTH
async def test_a_store_that_is_away_fails_no_session(world: World) -> None:
    outside = Outside("died", "done")
    act = outside.tool("idempotent")
    seen: list[str] = []

    @program
    async def acts(s: Session) -> int:
        try:
            got: int = await s.do(act, n=1)
        except Exception as error:
            seen.append(type(error).__name__)
            raise
        return got

    with pytest.raises(StoreUnavailable):
        await world.run(acts.bind())
    faults.disarm()
    assert (seen, (await world.rt.get("s")).status) == ([], "running")
    world.clock.advance(seconds=16)
    view = await world.again()
    assert (view.status, view.result, len(outside.calls)) == ("done", 7, 1), "what it knew was written down"
    assert (await world.outcomes(await world.effect())) == ["acknowledged"]


@BOTH
@pytest.mark.parametrize("place", range(1, 9))
async def test_a_store_that_goes_away_at_any_move_fails_no_session(world: World, place: int) -> None:
    outside = Outside()
    act = outside.tool("idempotent")

    @program
    async def acts(s: Session) -> list[Any]:
        first = await s.step("first", lambda: 1)
        await s.remember("k", first)
        return [first, await s.do(act, n=1), await s.recall("k")]

    await world.rt.start(acts.bind(), id="s")
    left = [place]

    def away(point: str) -> None:
        if point == "commit.before":
            left[0] -= 1
            if left[0] <= 0:
                raise StoreUnavailable("The store is away.")

    faults.arm(away)
    try:
        await world.again()
    except StoreUnavailable:
        pass
    faults.disarm()
    world.clock.advance(seconds=16)
    view = await world.again()
    assert (view.status, view.result, len(set(outside.keys))) == ("done", [1, 7, 1], 1)
    world.verify()


@MEMORY
async def test_a_lease_that_ran_out_before_the_act_is_proof_that_it_did_not_begin(world: World) -> None:
    outside = Outside()
    act = outside.tool("escalate")

    @program
    async def acts(s: Session) -> int:
        got: int = await s.do(act, n=1)
        return got

    commits = [0]

    def late(point: str) -> None:
        commits[0] += point == "commit.after"
        if commits[0] == 3:  # created, leased, dispatched
            faults.disarm()
            world.clock.advance(seconds=16)

    faults.arm(late)
    view = await world.run(acts.bind())
    assert (view.result, len(outside.calls)) == (7, 1)
    assert await world.outcomes(await world.effect()) == ["absent", "acknowledged"]


@MEMORY
async def test_a_heartbeat_renews_the_lease_and_says_when_it_is_lost(world: World) -> None:
    @tool
    def long(call: Call) -> str:
        call.heartbeat()
        move = lease.take_over(uid, "somebody-else", nonce="n-2", ttl=60_000_000, because="a person insists")
        world.rt.store.write_now(move)
        try:
            call.heartbeat()
        except LeaseLost:
            return "told"
        return "not told"

    @program
    async def acts(s: Session) -> str:
        return await s.do(long)

    uid = (await world.rt.start(acts.bind(), id="s")).uid
    with pytest.raises(LeaseLost):
        await world.again()
    assert (await world.effect()).result == '"told"'
