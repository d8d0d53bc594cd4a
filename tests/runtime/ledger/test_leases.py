"""Leases that effects need: one branch, two sessions, and never one push over another, whatever became of the first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import Call, Session, program, tool
from perdure.domain.effect import AttemptOutcome
from perdure.errors import ConfigError, LeaseHeld, SessionWaiting
from perdure.runtime.definitions.program import PROGRAMS, Bound
from perdure.store.move import Log, outsider_move
from perdure.store.moves import effect, lease
from perdure.store.moves.effect_input import AttemptResult
from perdure.testing import ManualClock
from tests.runtime.support.scripted_world import Outside, World

pytestmark = pytest.mark.anyio


def pushing(outside: Outside, replay: Any = "escalate", **options: Any) -> None:
    """A program that pushes to a branch, and a tool that needs the branch for it."""
    push = outside.tool(replay, name="push", leases=("branch:{n}",), **options)

    @program
    async def pushes(s: Session, n: int) -> int:
        done: int = await s.do(push, n=n)
        return done


def bound(n: int = 1) -> Bound[int]:
    return PROGRAMS["pushes"].bind(n=n)


async def held(world: World) -> list[tuple[str, str | None]]:
    return [(one.resource, one.nonce) for one in await world.rt.store.read(lease.named_leases)]


async def test_a_lease_is_held_from_the_dispatch_to_the_settle(world: World) -> None:
    seen: list[list[tuple[str, str | None]]] = []

    @tool(leases=("branch:{branch}", "deploy:api"))
    async def push(call: Call, branch: str) -> None:
        seen.append(await held(world))

    @program
    async def pushes(s: Session, branch: str) -> None:
        await s.do(push, branch=branch)

    assert (await world.run(pushes.bind(branch="main"))).status == "done"
    made = await world.effect()
    assert made.leases == ["branch:main", "deploy:api"]
    assert seen == [[("branch:main", made.id), ("deploy:api", made.id)]]
    assert await held(world) == [("branch:main", None), ("deploy:api", None)]
    world.verify()


async def test_the_second_waits_until_the_first_is_settled(world: World) -> None:
    order: list[str] = []
    begun, go = asyncio.Event(), asyncio.Event()

    @tool(leases=("branch:{branch}",))
    async def push(call: Call, branch: str, who: str) -> None:
        order.append(f"{who} begins")
        begun.set()
        await go.wait()
        order.append(f"{who} ends")

    @program
    async def pushes(s: Session, branch: str, who: str) -> None:
        await s.do(push, branch=branch, who=who)

    await world.rt.start(pushes.bind(branch="main", who="a"), id="a")
    first = asyncio.create_task(world.rt.run("a"))
    await begun.wait()
    second = await world.run(pushes.bind(branch="main", who="b"), "b")
    (asked,) = second.waits
    assert (second.status, asked.kind, asked.ref) == ("waiting", "lease", "branch:main")
    assert asked.detail["holder"] == "a"
    assert asked.detail["effect"] == (await world.effect("a")).id
    (planned,) = await world.rt.recovery_plan("b")
    assert planned.action == "wait for lease"
    assert (await world.again("b")).status == "waiting"
    assert await world.attempts(await world.effect("b")) == []
    go.set()
    assert (await world.run(pushes.bind(branch="topic", who="c"), "c")).status == "done"
    await first
    assert (await world.rt.get("b")).status == "ready"
    assert (await world.again("b")).status == "done"
    assert [word for word in order if word[0] != "c"] == ["a begins", "a ends", "b begins", "b ends"]
    assert [one.epoch for one in await world.rt.store.read(lease.named_leases)] == [2, 1]
    world.verify("b")


async def test_two_calls_of_one_program_side_by_side_take_turns(world: World) -> None:
    inside: list[str] = []

    @tool(leases=("branch:main",))
    async def push(call: Call, n: int) -> int:
        inside.append(f"+{n}")
        await asyncio.sleep(0)
        inside.append(f"-{n}")
        return n

    @program
    async def both(s: Session) -> list[int]:
        return list(await asyncio.gather(s.do(push, n=1), s.do(push, n=2)))

    assert (await world.run(both.bind())).result == [1, 2]
    assert inside in (["+1", "-1", "+2", "-2"], ["+2", "-2", "+1", "-1"])


async def test_an_effect_in_doubt_keeps_its_lease(world: World, clock: ManualClock) -> None:
    outside = Outside("lost")
    pushing(outside)
    assert (await world.run(bound(), "a")).status == "waiting"
    assert (await world.run(bound(), "b")).status == "waiting"
    clock.advance(hours=24 * 365)
    assert (await world.again("b")).status == "waiting"
    assert len(outside.calls) == 1
    with pytest.raises(SessionWaiting, match="lease"):
        await world.rt.complete("b")  # only a person can settle the first
    await world.rt.settle((await world.effect("a")).id, "happened", by="ada", because="seen", result=7)
    assert (await world.rt.get("b")).status == "ready"
    assert (await world.again("b")).status == "done"
    assert len(outside.calls) == 2


@pytest.mark.databases("sqlite", "files", "postgres")
async def test_a_killed_process_keeps_the_lease_until_its_session_recovers(world: World) -> None:
    outside = Outside("died")
    pushing(outside, "probe")
    await world.dies(bound(), "a")
    assert (await world.run(bound(), "b")).status == "waiting"
    assert (await world.again("a")).status == "done"
    assert (await world.again("b")).status == "done"
    assert len(outside.happened) == 2


@pytest.mark.slow
async def test_absent_keeps_the_lease_while_a_request_may_be_in_flight(world: World) -> None:
    outside = Outside("lost")
    pushing(outside)
    await world.run(bound(), "a")
    await world.run(bound(), "b")
    await world.rt.settle((await world.effect("a")).id, "absent", by="ada", because="not there")
    assert (await world.again("b")).status == "waiting"
    await world.rt.cancel("a")
    assert (await world.again("a")).status == "cancelled"
    assert (await world.again("b")).status == "done"


async def test_a_proven_failure_gives_it_up(world: World) -> None:
    outside = Outside("failed")
    pushing(outside, retry=1)
    assert (await world.run(bound(), "a")).status == "failed"
    assert (await world.run(bound(), "b")).status == "done"


async def test_an_undo_uses_the_lease_of_its_effect(world: World, clock: ManualClock) -> None:
    outside = Outside("lost")
    pushing(outside, "compensate")
    assert (await world.run(bound(), "a")).status == "waiting"  # until nothing can be in flight
    assert (await world.run(bound(), "b")).status == "waiting"
    clock.advance(seconds=31)
    assert (await world.again("a")).status == "done"
    assert outside.undone == [None]
    assert (await world.again("b")).status == "done"
    assert await held(world) == [("branch:1", None)]


async def test_a_waiter_is_notified_again_if_the_notifier_died(world: World) -> None:
    outside = Outside("lost")
    pushing(outside)
    await world.run(bound(), "a")
    await world.run(bound(), "b")
    first = await world.effect("a")
    known = AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result="7")
    await world.rt.store.write(effect.settle(first.session_uid, "w", first.id, 1, known))  # and dies before it tells
    assert (await world.rt.get("b")).status == "waiting"
    assert (await world.again("a")).status == "done"
    assert (await world.rt.get("b")).status == "ready"


async def test_it_waits_for_the_time_of_a_lease_that_has_one(world: World, clock: ManualClock) -> None:
    outside = Outside()
    pushing(outside)
    taken = lease.acquire_named("branch:1", holder="deployer", nonce="n-1", ttl=60_000_000)
    await world.rt.store.write(taken)
    waiting = await world.run(bound(), "a")
    assert [(one.kind, one.due_at) for one in waiting.waits] == [("lease", clock.now() + 60_000_000)]
    clock.advance(seconds=61)
    assert (await world.again("a")).status == "done"


async def test_a_lease_of_an_effect_cannot_be_taken_by_name(world: World, clock: ManualClock) -> None:
    pushing(Outside("lost"))
    await world.run(bound(), "a")
    clock.advance(hours=1000)
    with pytest.raises(LeaseHeld, match="session a until its effect"):
        await world.rt.store.write(lease.acquire_named("branch:1", holder="w", nonce="n", ttl=1))


async def test_a_lease_released_before_the_wait_begins_is_taken(world: World) -> None:
    pushing(Outside("lost"))
    await world.run(bound(), "a")
    await world.run(bound(), "b")
    first, second = await world.effect("a"), await world.effect("b")

    @outsider_move
    def wait(log: Log) -> str | None:
        return lease.wait_for.on(log, second.id, "branch:1")

    assert await world.rt.store.write(wait(second.session_uid, "w")) is not None
    await world.rt.settle(first.id, "happened", by="ada", because="seen", result=7)
    assert await world.rt.store.write(wait(second.session_uid, "w")) is None


@pytest.mark.databases("sqlite", "postgres")
async def test_many_sessions_of_two_processes_that_need_two_branches_never_meet(world: World) -> None:
    """Each names its two branches in another order; there is no deadlock."""
    inside: list[str] = []
    met: list[list[str]] = []

    @tool(leases=("branch:{first}", "branch:{second}"))
    async def merge(call: Call, first: str, second: str, who: int) -> int:
        met.extend([list(inside)] if inside else [])
        inside.append(call.session_id)
        await asyncio.sleep(0.001)
        inside.remove(call.session_id)
        return who

    @program
    async def merges(s: Session, first: str, second: str, who: int) -> int:
        return await s.do(merge, first=first, second=second, who=who)

    other = world.open()
    names = [("main", "topic"), ("topic", "main")]
    for who in range(6):
        first, second = names[who % 2]
        await world.rt.start(merges.bind(first=first, second=second, who=who), id=f"m-{who}")
    runs = [(world.rt if who % 3 else other).complete(f"m-{who}") for who in range(6)]
    assert [view.result for view in await asyncio.gather(*runs)] == list(range(6))
    assert met == []
    assert [one.epoch for one in await world.rt.store.read(lease.named_leases)] == [6, 6]
    other.close()


@pytest.mark.parametrize("replay", ["pure", "joint"])
def test_what_changes_nothing_outside_needs_no_lease(replay: Any) -> None:
    with pytest.raises(ConfigError, match="needs no lease"):

        @tool(replay=replay, leases=("branch:main",))
        def look(tx: object) -> None: ...


async def test_a_lease_is_a_usable_name_made_of_known_parameters(world: World) -> None:
    @tool(leases=("branch:{branch}",))
    def push(branch: str) -> None: ...

    @tool(name="pull", leases=("branch:{other}",))
    def pull(branch: str) -> None: ...

    @program
    async def pushes(s: Session, branch: str) -> None:
        await s.do(push, branch=branch)

    @program
    async def pulls(s: Session, branch: str) -> None:
        await s.do(pull, branch=branch)

    assert "not a valid name" in (await world.run(pushes.bind(branch="no good"), "a")).error["message"]
    assert "a lease names an unknown parameter" in (await world.run(pulls.bind(branch="x"), "b")).error["message"]


@pytest.mark.databases("memory")
async def test_a_waiter_is_notified_when_a_cancel_releases_the_lease(world: World) -> None:
    outside = Outside("raise")
    pushing(outside)
    await world.run(bound(), "a")
    await world.run(bound(), "b")
    await world.rt.settle((await world.effect("a")).id, "absent", by="ada", because="not there")
    assert [one.kind for one in (await world.rt.get("b")).waits] == ["lease"]
    assert (await world.rt.cancel("a")).status == "cancelled"
    assert (await world.rt.get("b")).status == "ready"
