"""The act itself: time limits, threads, heartbeats, leases that are lost, and a store that is away."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from perdure import (
    Call,
    ConfigError,
    LeaseHeld,
    LeaseLost,
    NotDone,
    Outcome,
    Session,
    StoreFull,
    ToolError,
    faults,
    program,
    tool,
)
from perdure.cli.text.effects import is_overdue
from perdure.cli.text.sentence import sentence
from perdure.clock import SECOND
from perdure.errors import IllegalMove, StoreUnavailable
from perdure.runtime.definitions.tool import TOOLS
from perdure.runtime.ledger.attempt_registry import BROKEN_OFF
from perdure.runtime.runtime import Runtime
from perdure.store.moves import lease
from perdure.store.store import open_store
from tests.runtime.support.scripted_world import Outside, World, die

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
    assert (attempt.outcome, attempt.error["type"], attempt.ended_at) == ("unknown", "TimeoutError", None)


@MEMORY
async def test_the_result_of_a_cancelled_async_tool_counts(world: World) -> None:
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
        assert go.wait(120)
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
        assert is_overdue(effect, [attempt], world.clock.now() + SECOND)
        noted = [line async for line in world.rt.events("s") if line.kind == "effect.unknown"]
        assert "attempt 1 is overdue and still in progress" in sentence(noted[0], {})
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
            raise ConnectionRefusedError("connection refused")
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


@pytest.mark.slow
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
                        s.uid, "another-worker", nonce="n-2", ttl=60_000_000, because="a person insists"
                    )
                    await world.rt.store.write(move)
            except Exception as error:
                caught.append(type(error).__name__)
        return "continued"

    with pytest.raises(LeaseLost):
        await world.run(stubborn.bind())
    assert (caught, len(outside.calls)) == ([], 2)
    now = await world.rt.get("s")
    assert (now.status, now.lease_holder) == ("running", "another-worker")


@BOTH
async def test_an_outcome_is_taken_though_the_lease_moved_on(world: World) -> None:
    outside = Outside()

    @tool
    async def act(n: int) -> int:
        move = lease.take_over(uid, "another-worker", nonce="n-2", ttl=60_000_000, because="a person insists")
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
async def test_an_unavailable_store_fails_no_session(world: World) -> None:
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
async def test_a_store_lost_at_any_move_fails_no_session(world: World, place: int) -> None:
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
async def test_a_lease_that_expired_before_the_act_proves_it_never_began(world: World) -> None:
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
async def test_a_heartbeat_renews_the_lease_and_reports_its_loss(world: World) -> None:
    @tool
    def long(call: Call) -> str:
        call.heartbeat()
        move = lease.take_over(uid, "another-worker", nonce="n-2", ttl=60_000_000, because="a person insists")
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


@MEMORY
@pytest.mark.parametrize("safe", [OSError, TimeoutError, Exception, BaseException])
async def test_our_own_timeout_is_never_proof(world: World, safe: type[BaseException]) -> None:
    began: list[int] = []

    @tool(timeout="10ms", safe_errors=(safe,), retry=3)
    async def hangs() -> None:
        began.append(1)
        await asyncio.Event().wait()

    @program
    async def waits(s: Session) -> None:
        await s.do(hangs)

    view = await world.run(waits.bind())
    assert ([one.kind for one in view.waits], began) == (["doubt"], [1])


@MEMORY
async def test_an_error_raised_by_a_stopped_tool_is_no_proof(world: World) -> None:
    @tool(timeout="10ms", safe_errors=(ConnectionError,), retry=3)
    async def reports() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("closed in the middle") from None

    @program
    async def waits(s: Session) -> None:
        await s.do(reports)

    assert [one.kind for one in (await world.run(waits.bind())).waits] == ["doubt"]


@MEMORY
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_timeout_that_the_tool_itself_raised_is_proof_where_declared(world: World, is_async: bool) -> None:
    def plain() -> None:
        raise TimeoutError("the service was never reached")

    async def asynchronous() -> None:
        plain()

    act = tool(name="act", timeout="60s", safe_errors=(OSError,), retry=2)(asynchronous if is_async else plain)

    @program
    async def acts(s: Session) -> str:
        try:
            await s.do(act)
        except NotDone:
            return "told"
        return "done"

    assert (await world.run(acts.bind())).result == "told"
    assert await world.outcomes(await world.effect()) == ["failed", "failed"]


@MEMORY
@pytest.mark.parametrize("safe", [Exception, RuntimeError])
async def test_errors_of_ours_are_no_proof_unless_declared_by_name(world: World, safe: type[Exception]) -> None:
    """A lease that is lost in the middle, and a cancellation from within."""

    @tool(safe_errors=(safe,))
    def loses(n: int) -> None:
        raise LeaseLost("another worker holds it")

    @tool(safe_errors=(safe,))
    async def cancels(n: int) -> None:
        raise asyncio.CancelledError

    @program
    async def acts(s: Session, which: int) -> None:
        await s.do([loses, cancels][which], n=1)

    for which in (0, 1):
        view = await world.run(acts.bind(which=which), f"s{which}")
        assert [one.kind for one in view.waits] == ["doubt"]


@BOTH
async def test_a_thread_of_a_stopped_coroutine_may_still_run(world: World) -> None:
    """`absent` would count from the end of the coroutine, and the thread's request would land beside the second one."""
    go = threading.Event()
    landed: list[str] = []

    def request(key: str) -> None:
        assert go.wait(60)
        landed.append(key)

    @tool(replay="probe", timeout="10ms", inflight="30s")
    async def posts(call: Call) -> int:
        await asyncio.to_thread(request, call.key)
        return 1

    @posts.probe
    def _(call: Call) -> Outcome:
        return Outcome.happened(1) if call.key in landed else Outcome.absent()

    @program
    async def works(s: Session) -> int:
        return await s.do(posts)

    try:
        view = await world.run(works.bind())
        world.clock.advance(seconds=60)
        view = await world.again()
        effect = await world.effect()
        (attempt,) = await world.attempts(effect)
        assert ([one.kind for one in view.waits], attempt.outcome, attempt.ended_at) == (["doubt"], "unknown", None)
        (plan,) = await world.rt.recovery_plan("s")
        assert plan.action == "ask"
    finally:
        go.set()
    await world.rt.settle(effect.id, "happened", by="ada", because="it is there", result=1)
    assert (await world.again()).result == 1


@pytest.mark.databases("sqlite", "postgres")
async def test_a_stopped_coroutine_has_ended_once_its_process_is_dead(world: World) -> None:
    acts: list[int] = []

    @tool(replay="probe", timeout="10ms", inflight="30s")
    async def posts(call: Call) -> int:
        acts.append(call.attempt)
        if len(acts) == 1:
            try:
                await asyncio.Event().wait()
            finally:
                die()
        return 1

    @posts.probe
    def _(call: Call) -> Outcome:
        return Outcome.absent()

    @program
    async def works(s: Session) -> int:
        return await s.do(posts)

    await world.dies(works.bind())
    BROKEN_OFF.clear()  # another process knows nothing of it
    await world.again()
    world.clock.advance(seconds=31)
    view = await world.again()
    assert (view.status, view.result, acts) == ("done", 1, [1, 2])


@MEMORY
async def test_what_a_plain_tool_returns_is_awaited(world: World) -> None:
    async def later() -> int:
        return 7

    @tool
    def act() -> int:
        return later()  # type: ignore[return-value]

    @program
    async def acts(s: Session) -> int:
        return await s.do(act)

    assert (await world.run(acts.bind())).result == 7


@pytest.mark.parametrize("replay", ["escalate", "pure", "idempotent"])
async def test_a_result_of_the_wrong_type_raises_in_every_run(world: World, replay: Any) -> None:
    ran: list[int] = []

    @tool(replay=replay, retry=3)
    def act(call: Call) -> int:
        ran.append(1)
        call.reference("order-7")
        return "seven" * 1000  # type: ignore[return-value]

    @program
    async def acts(s: Session) -> str:
        try:
            await s.do(act)
        except ToolError as error:
            return f"{await s.ask('continue?')} {error.details['error']['code']}"
        return "no error"

    await world.run(acts.bind())
    (asked,) = (await world.rt.get("s")).waits
    await world.rt.answer(asked.id, "yes", by="ada")
    assert ((await world.again()).result, ran) == ("yes result-unstorable", [1])
    effect = await world.effect()
    assert (effect.state, effect.result, effect.reference) == ("acknowledged", "null", "order-7")
    assert "'sevenseven" in effect.error["message"]
    assert len(effect.error["message"]) < 3000
    assert await world.outcomes(effect) == ["acknowledged"]
    world.verify()


@pytest.mark.databases("sqlite", "postgres")
@pytest.mark.parametrize("error", [StoreFull("no room"), OSError(28, "no room"), StoreUnavailable("not mounted")])
async def test_a_full_artifact_volume_loses_no_known_outcome(
    world: World, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(*_: object) -> None:
        raise error

    act = Outside().tool()

    @tool
    def large(text: str) -> str:
        return text * 2

    @program
    async def works(s: Session) -> int:
        assert await s.do(act, n=1) == 7
        return len(await s.do(large, text="x" * 100_000)) + len(await s.step("big", lambda: "y" * 100_000))

    monkeypatch.setattr("perdure.artifacts.directory.Directory.put", put)
    assert (await world.run(works.bind())).result == 300_000
    assert [one.state for one in await world.effects()] == ["acknowledged", "acknowledged"]


@pytest.mark.databases("sqlite")
async def test_an_unknown_effect_stays_unknown_when_its_signature_changed(world: World) -> None:
    @tool(name="act", replay="idempotent")
    def old(n: int) -> int:
        die()
        return n

    @program
    async def acts(s: Session) -> int:
        return int(await s.do(TOOLS["act"], n=1))

    await world.dies(acts.bind())
    del TOOLS["act"]
    ran: list[str] = []

    @tool(name="act", replay="idempotent")
    def new(address: str) -> int:
        ran.append(address)
        return 1

    with pytest.raises(ConfigError, match="takes the recorded arguments"):
        await world.again()
    effect = await world.effect()
    assert (ran, effect.state, await world.outcomes(effect)) == ([], "dispatched", [None])


@pytest.mark.databases("sqlite")
async def test_a_full_artifact_volume_does_not_end_a_session_that_saves(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreFull("no room")

    @program
    async def saves(s: Session) -> str:
        return await s.save(b"content")

    with monkeypatch.context() as patched:
        patched.setattr("perdure.artifacts.directory.Directory.put", full)
        with pytest.raises(StoreFull):
            await world.run(saves.bind())
    assert (await world.rt.get("s")).status == "ready"
    assert (await world.again()).status == "done"


@BOTH
async def test_a_failed_retry_proves_nothing_of_an_attempt_before_it(world: World) -> None:
    """The first request landed and its answer was lost; the service refuses the others."""
    outside = Outside("lost", "failed", "failed")
    act = outside.tool("idempotent", retry=3)

    @program
    async def acts(s: Session) -> str:
        try:
            await s.do(act, n=1)
        except NotDone:
            return "told that it did not happen"
        return "done"

    view = await world.run(acts.bind())
    effect = await world.effect()
    assert ([one.kind for one in view.waits], effect.state) == (["doubt"], "dispatched")
    assert (len(outside.calls), len(outside.happened)) == (3, 1)
    await world.rt.settle(effect.id, "happened", by="ada", because="it is there", result=7)
    assert (await world.again()).result == "done"
