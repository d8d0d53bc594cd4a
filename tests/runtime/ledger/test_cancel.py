"""A session that was asked to stop begins no act, in recovery either; what it has begun is probed or undone."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from perdure import Call, NotDone, Outcome, Session, faults, program, tool
from perdure.domain.literals import VerdictWord
from perdure.domain.worker import Liveness
from perdure.errors import IllegalMove, StoreUnavailable
from perdure.runtime.runtime import Runtime
from perdure.store.moves import effect as effects
from perdure.store.moves import session_end
from perdure.testing import ManualClock
from tests.runtime.support.scripted_world import ENDED, GATE, Outside, World

pytestmark = pytest.mark.databases("sqlite")
BOTH = pytest.mark.databases("sqlite", "postgres")


async def died_and_was_cancelled(world: World, outside: Outside, **options: Any) -> None:
    """A session whose process died in the act and which was then cancelled."""
    act = outside.tool(**options)

    @program
    async def once(s: Session) -> int:
        return int(await s.do(act, n=1))

    view = await world.run(once.bind()) if options.get("gate") else None
    if view is None:
        await world.dies(once.bind())
    else:
        await world.rt.approve(view.waits[0].id, by="ada", because="fine")
        with pytest.raises(StoreUnavailable):
            await world.again()
        world.crash()
    await world.rt.cancel("s", by="ada")


@BOTH
async def test_idempotent_without_a_probe_becomes_a_doubt(world: World) -> None:
    outside = Outside("died", "done")
    await died_and_was_cancelled(world, outside, replay="idempotent")
    assert [one.action for one in await world.rt.recovery_plan("s")] == ["ask"]
    view = await world.again()
    assert ([one.kind for one in view.waits], view.status, len(outside.calls)) == (["doubt"], "waiting", 1)
    assert "asked to stop" in ((await world.effect()).doubt or "")
    await world.rt.settle((await world.effect()).id, "happened", by="ada", because="seen", result=7)
    view = await world.again()
    assert (view.status, (await world.effect()).state) == ("cancelled", "acknowledged")


@pytest.mark.parametrize("replay", ["idempotent", "probe"])
async def test_a_probe_is_still_asked(world: World, replay: str) -> None:
    outside = Outside("died")
    await died_and_was_cancelled(world, outside, replay=replay, probe=True)
    view = await world.again()
    assert (view.status, (await world.effect()).state, len(outside.calls)) == ("cancelled", "acknowledged", 1)


async def test_what_a_probe_did_not_find_is_refused_and_not_dispatched(world: World, clock: ManualClock) -> None:
    outside = Outside("died early", "done")
    await died_and_was_cancelled(world, outside, replay="probe")
    view = await world.again()
    assert ([one.kind for one in view.waits], view.status) == (["timer"], "waiting"), "it may still land"
    clock.advance(seconds=31)
    view, effect = await world.again(), await world.effect()
    assert (view.status, effect.state, effect.error["code"]) == ("cancelled", "refused", "cancelled")
    assert len(outside.calls) == 1


async def test_an_undo_is_still_done_and_no_successor_planned(world: World, clock: ManualClock) -> None:
    outside = Outside("died", "done")
    await died_and_was_cancelled(world, outside, replay="compensate")
    assert "planned anew" not in (await world.rt.recovery_plan("s"))[0].why
    await world.again()
    clock.advance(seconds=31)
    view = await world.again()
    assert (view.status, outside.undone, len(outside.calls)) == ("cancelled", [None], 1)
    assert [one.state for one in await world.effects()] == ["compensated", "acknowledged"]


async def test_an_undo_whose_process_died_is_done_again(world: World, clock: ManualClock) -> None:
    outside = Outside("died", "done")
    outside.undo_script = ["died", "done"]
    await died_and_was_cancelled(world, outside, replay="compensate")
    await world.again()
    clock.advance(seconds=31)
    with pytest.raises(StoreUnavailable):
        await world.again()
    world.crash()
    view = await world.again()
    assert (view.status, len(outside.undone), len(outside.calls)) == ("cancelled", 2, 1)


async def test_a_pure_effect_is_not_run_again(world: World) -> None:
    outside = Outside("died", "done")
    await died_and_was_cancelled(world, outside, replay="pure", gate=GATE)
    view = await world.again()
    assert (view.status, (await world.effect()).state, len(outside.calls)) == ("cancelled", "failed", 1)


async def test_a_verdict_of_absent_does_not_begin_another_attempt(world: World, clock: ManualClock) -> None:
    outside = Outside("died early", "done")
    await died_and_was_cancelled(world, outside, replay="escalate")
    await world.again()
    await world.rt.settle((await world.effect()).id, "absent", by="ada", because="nothing there")
    clock.advance(seconds=31)
    view = await world.again()
    assert (view.status, (await world.effect()).state, len(outside.calls)) == ("cancelled", "refused", 1)


async def test_the_plan_shows_that_a_planned_effect_is_refused(world: World) -> None:
    act = Outside().tool(gate=GATE)

    @program
    async def gated(s: Session) -> None:
        await s.do(act, n=1)

    await world.run(gated.bind())
    await world.rt.store.write(session_end.cancel((await world.rt.get("s")).uid, "ada"))
    plan = await world.rt.recovery_plan("s")
    assert [one.action for one in plan] in (["refuse"], [])


async def test_a_cancel_during_a_probe_prevents_the_dispatch(world: World) -> None:
    outside = Outside("died early", "done")
    act = outside.tool("probe", inflight="0s")

    @act.probe
    async def asked(call: Call, n: int) -> Outcome:
        await world.rt.cancel("s", by="ada")
        return Outcome.absent()

    @program
    async def once(s: Session) -> int:
        return int(await s.do(act, n=1))

    await world.dies(once.bind())
    view = await world.again()
    assert (view.status, (await world.effect()).state, len(outside.calls)) == ("cancelled", "refused", 1)


@BOTH
async def test_a_cancel_during_an_act_prevents_the_next_attempt(world: World) -> None:
    made: list[int] = []

    @tool(retry=3)
    async def act(n: int) -> int:
        made.append(n)
        await world.rt.cancel("s", by="ada")
        raise NotDone("the service refused it")

    @program
    async def once(s: Session) -> int:
        return await s.do(act, n=1)

    view = await world.run(once.bind())
    assert (view.status, (await world.effect()).state, made) == ("cancelled", "refused", [1])


@BOTH
@pytest.mark.parametrize("replay", ["escalate", "joint"])
async def test_a_cancel_that_commits_just_before_a_dispatch_is_honoured(world: World, replay: str) -> None:
    """The holder has not heard of it: the dispatch itself looks, in its transaction."""
    outside = Outside()
    if replay == "joint":

        def act(tx: Any, n: int) -> int:
            outside.happened.append(str(n))
            return n

        acting = tool(name="act", replay="joint")(act)
    else:
        acting = outside.tool(replay)

    @program
    async def once(s: Session) -> int:
        uid = (await world.rt.get("s")).uid
        world.rt.store.write_now(session_end.cancel(uid, "ada"))
        return int(await s.do(acting, n=1))

    view = await world.run(once.bind())
    assert (view.status, outside.happened, outside.calls) == ("cancelled", [], [])
    world.verify()


@pytest.mark.parametrize("calls", [1, 3])
async def test_cancelling_the_run_begins_no_further_act_of_the_recovery(world: World, calls: int) -> None:
    outside = Outside("died early", *["raise"] * 50)
    act = outside.tool("idempotent", retry=50)
    task: list[asyncio.Task[Any]] = []

    @program
    async def once(s: Session) -> int:
        return int(await s.do(act, n=1))

    await world.dies(once.bind())
    outside.calls.clear()
    loop = asyncio.get_running_loop()

    def moment(point: str) -> None:
        if point == "act.begun" and len(outside.calls) == calls - 1:
            loop.call_soon(task[0].cancel)

    faults.arm(moment)
    task.append(asyncio.create_task(world.again()))
    with pytest.raises(asyncio.CancelledError):
        await task[0]
    view = await world.rt.get("s")
    assert (len(outside.calls), view.status, view.lease_holder) == (calls, "ready", None)


async def test_a_run_can_be_cancelled_during_a_short_inflight_wait(target: str) -> None:
    """With the real clock: the recovery asks its probe again and again, and each wait is too short to park."""
    outside, probed = Outside("died early"), asyncio.Event()
    act = outside.tool("probe", inflight="200ms")
    loop = asyncio.get_running_loop()

    @act.probe
    def asked(call: Call, n: int) -> Outcome:
        outside.probed.append(call.key)
        loop.call_soon_threadsafe(probed.set)
        return Outcome.absent()

    @program
    async def once(s: Session) -> int:
        return int(await s.do(act, n=1))

    with World(target, ManualClock()) as world:
        await world.dies(once.bind())
    async with _opened(target) as runtime:
        runtime.life_of = lambda attempt: Liveness.ALIVE  # type: ignore[method-assign]
        running = asyncio.create_task(runtime.run("s"))
        await asyncio.wait_for(probed.wait(), 60)
        running.cancel()
        await asyncio.wait({running}, timeout=180)
        runtime.life_of = lambda attempt: Liveness.DEAD  # type: ignore[method-assign]
        assert running.cancelled()
        assert (len(outside.probed), (await runtime.get("s")).status) == (1, "ready")


def _opened(target: str) -> Runtime:
    from perdure.runtime.runtime import open as open_runtime

    return open_runtime(target)


class Interruption:
    """Asks a session to stop right after the n-th group of moves was answered."""

    def __init__(self, world: World, uid: str, after: int) -> None:
        self._world = world
        self._uid = uid
        self._left = after
        self._loop = asyncio.get_running_loop()
        self.requested: asyncio.Future[None] | None = None

    def __call__(self, point: str) -> None:
        if point == "answer.after":
            self._left -= 1
            if self._left == 0:
                self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self.requested = asyncio.ensure_future(self._request())

    async def _request(self) -> None:
        with suppress(IllegalMove):  # it has ended meanwhile
            await self._world.rt.store.write(session_end.cancel(self._uid, "ada"))


RECOVERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "idempotent": ("died", {}), "idempotent with a probe": ("died early", {"probe": True, "key_ttl": "1s"}),
    "probe": ("died early", {}), "compensate": ("died", {}), "escalate": ("died early", {}),
}  # fmt: skip


async def recovered_with_a_cancel(world: World, rule: str, place: int) -> tuple[list[str], bool]:
    """Recover a session that is asked to stop after its n-th group of moves; what it dispatched after that, and whether
    it was still recovering then."""
    word, options = RECOVERIES[rule]
    outside = Outside(word, "raise", "done")
    act, name = outside.tool(rule.split(maxsplit=1)[0], inflight="0s", **options), f"s{place}"

    @program
    async def once(s: Session) -> int:
        return int(await s.do(act, n=1))

    await world.dies(once.bind(), name)
    interruption = Interruption(world, (await world.rt.get(name)).uid, place)
    faults.arm(interruption)
    view = await world.rt.get(name)
    for _ in range(20):
        view = await world.again(name)
        if interruption.requested is not None:
            await interruption.requested
        for one in view.waits:
            if one.kind == "doubt" and one.ref is not None:
                happened = bool(outside.happened)
                verdict: VerdictWord = "happened" if happened else "absent"
                result = 7 if happened else None
                await world.rt.settle(one.ref, verdict, by="ada", because="I looked", result=result)
        if view.status in ENDED:
            break
        world.clock.advance(seconds=2)
    faults.disarm()
    events = [one async for one in world.rt.events(name)]
    asked = next((one.number for one in events if one.kind == "cancel.requested"), None)
    undos = {one.id for one in await world.effects(name) if one.position[0] == "undo"}
    after = [one for one in events if asked is not None and one.number > asked and one.effect_id not in undos]
    dispatched = [one.kind for one in after if one.kind == "effect.dispatched"]
    assert view.status in ("done", "done" if asked is None else "cancelled"), (rule, place, view.status)
    assert len(set(outside.happened)) <= 1, (rule, place)
    world.verify(name)
    return dispatched, asked is not None


async def with_a_cancel_at_every_moment(world: World, rule: str) -> list[str]:
    """What was dispatched after a cancel, over all moments of a recovery."""
    found: list[str] = []
    for place in range(1, 60):
        dispatched, interrupted = await recovered_with_a_cancel(world, rule, place)
        found += dispatched
        if not interrupted:
            assert place > 4, "there was nothing to interrupt"
            return found
    raise AssertionError("the recovery has no end")


@pytest.mark.slow
@pytest.mark.parametrize("rule", RECOVERIES)
async def test_a_cancel_at_any_durable_moment_of_a_recovery_is_honoured(world: World, rule: str) -> None:
    assert await with_a_cancel_at_every_moment(world, rule) == []


@pytest.mark.slow
async def test_a_dispatch_that_does_not_look_for_a_cancel_is_caught(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: only what the holder heard before it took the evidence counts."""
    monkeypatch.setattr(effects, "is_held_back", lambda *_: False)
    assert await with_a_cancel_at_every_moment(world, "probe") != []
