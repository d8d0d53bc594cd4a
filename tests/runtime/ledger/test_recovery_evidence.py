"""When evidence was taken, and whose rule counts: slow probes, early undos, changed code, attempts that still run."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Call, EffectCompensated, EffectInDoubt, NotDone, Outcome, Program, Session, ToolError, faults
from perdure import program as declare
from perdure.domain.worker import Liveness
from perdure.errors import StoreUnavailable
from perdure.runtime.definitions.tool import TOOLS
from perdure.testing import ManualClock
from tests.runtime.support.scripted_world import GATE, LEASE, Outside, World, die

pytestmark = pytest.mark.databases("sqlite")
BOTH = pytest.mark.databases("sqlite", "postgres")


def once(name: str = "act") -> Program[..., Any]:
    """A program that calls whichever tool of this name is loaded."""

    @declare
    async def once(s: Session) -> Any:
        try:
            return await s.do(TOOLS[name], n=1)
        except (NotDone, ToolError, EffectInDoubt, EffectCompensated) as error:
            return type(error).__name__

    return once


async def lives(world: World, *states: Liveness) -> None:
    """From now on attempts are found in these states, the last one for ever."""
    said = list(states)
    world.rt.life_of = lambda attempt: said.pop(0) if len(said) > 1 else said[0]  # type: ignore[method-assign]


@BOTH
async def test_absent_counts_from_when_the_probe_was_asked(world: World, clock: ManualClock) -> None:
    outside = Outside("raise")
    tool = outside.tool("probe", inflight="30s")

    @tool.probe
    def slow(call: Call, n: int) -> Outcome:
        seen = outside.probe(call)
        if len(outside.probed) == 1:  # the request lands after the look, and the answer comes after `inflight`
            outside.happened.append(call.key)
            clock.advance(seconds=60)
        return seen

    view = await world.run(once().bind())
    assert (view.result, len(outside.calls), len(outside.probed)) == (7, 1, 2)
    notes = [one.body["evidence"] async for one in world.rt.events("s") if one.kind == "effect.recovered"]
    assert [one["attempt"] for one in notes] == [1, 1]
    assert notes[1]["asked_at"] - notes[0]["asked_at"] == 60_000_000


async def test_an_undo_that_began_too_early_is_done_again(world: World, clock: ManualClock) -> None:
    outside = Outside("raise")
    tool = outside.tool("compensate", inflight="0s")
    written: list[str] = []

    def die_after_settle(point: str) -> None:
        if point == "move.before":
            written.append(point)
            if len(written) > 1:
                die()
                raise StoreUnavailable("This process is dead.")

    @tool.undo
    def undo(call: Call, result: int | None, n: int) -> None:
        outside.undo(call, result)
        if len(outside.undone) == 1:
            faults.arm(die_after_settle)

    await world.dies(once().bind())
    assert [one.state for one in await world.effects()] == ["dispatched", "acknowledged"]
    outside.happened.append(outside.keys[0])  # what was in flight lands after the undo
    tool.inflight = 60_000_000
    clock.advance(seconds=60)
    view = await world.again()
    assert (view.result, len(outside.undone), len(outside.happened)) == (7, 2, 1)


CHANGES: dict[str, tuple[str, dict[str, Any], str, dict[str, Any], str]] = {
    "escalate becomes idempotent": ("escalate", {}, "idempotent", {}, "doubt"),
    "escalate becomes pure": ("escalate", {}, "pure", {}, "doubt"),
    "escalate becomes probe": ("escalate", {}, "probe", {}, "doubt"),
    "idempotent becomes escalate": ("idempotent", {}, "escalate", {}, "doubt"),
    "idempotent becomes joint": ("idempotent", {}, "joint", {}, "doubt"),
    "probe becomes compensate": ("probe", {}, "compensate", {}, "doubt"),
    "probe loses its probe": ("probe", {}, "idempotent", {}, "doubt"),
    "probe becomes idempotent": ("probe", {}, "idempotent", {"probe": True}, "probed"),
    "idempotent becomes probe": ("idempotent", {}, "probe", {}, "probed"),
    "fewer attempts were recorded": ("idempotent", {"retry": 1}, "idempotent", {"retry": 9}, "doubt"),
    "fewer attempts are declared": ("idempotent", {"retry": 9}, "idempotent", {"retry": 1}, "doubt"),
    "a shorter key_ttl was recorded": ("idempotent", {"key_ttl": "10s"}, "idempotent", {"key_ttl": "1h"}, "doubt"),
    "a shorter key_ttl is declared": ("idempotent", {}, "idempotent", {"key_ttl": "10s"}, "doubt"),
    "nothing changed": ("idempotent", {}, "idempotent", {}, "again"),
}


def load_code(outside: Outside, replay: str, options: dict[str, Any]) -> None:
    """Deploy this version of the tool."""
    if replay != "joint":
        outside.tool(replay, **options)
        return

    def act(tx: Any, n: int) -> int:
        raise AssertionError("it acted")

    from perdure import tool

    TOOLS.pop("act", None)
    tool(name="act", replay="joint")(act)


@pytest.mark.parametrize("change", CHANGES)
async def test_the_stricter_of_recorded_and_loaded_rule_counts(world: World, change: str) -> None:
    was, options, now, changed, expected = CHANGES[change]
    outside = Outside("died", "done")
    load_code(outside, was, options)
    await world.dies(once().bind())
    load_code(outside, now, changed)
    (planned,) = await world.rt.recovery_plan("s")
    view = await world.again()
    did = "doubt" if view.waits else "probed" if outside.probed else "again"
    assert did == expected
    assert len(outside.calls) == (2 if expected == "again" else 1)
    assert planned.action == {"doubt": "ask", "probed": "probe", "again": "run again"}[expected]
    if was != now:
        assert f"It was planned as {was}, and the loaded code says {now}" in planned.why
    elif changed:
        assert ("as recorded with the plan" in planned.why) == ("recorded" in change)
    if expected == "doubt":
        assert (await world.effect()).doubt == planned.why.split(" Worker ")[0]


async def test_idempotent_that_becomes_compensate_is_undone(world: World, clock: ManualClock) -> None:
    outside = Outside("died", "done")
    load_code(outside, "idempotent", {})
    await world.dies(once().bind())
    load_code(outside, "compensate", {})
    await world.again()
    clock.advance(seconds=31)
    assert ((await world.again()).result, outside.undone, len(outside.happened)) == (7, [None], 1)


async def test_the_larger_inflight_counts(world: World, clock: ManualClock) -> None:
    outside = Outside("died early", "done")
    load_code(outside, "probe", {"inflight": "60s"})
    await world.dies(once().bind())
    load_code(outside, "probe", {"inflight": "1s"})
    await world.again()
    clock.advance(seconds=59)
    assert ((await world.again()).status, len(outside.calls)) == ("waiting", 1)
    clock.advance(seconds=1)
    assert ((await world.again()).result, len(outside.calls)) == (7, 2)


async def test_the_smaller_retry_also_limits_proven_failures(world: World, clock: ManualClock) -> None:
    outside = Outside("died early", "failed", "done")
    load_code(outside, "escalate", {"retry": 1})
    await world.dies(once().bind())
    load_code(outside, "escalate", {"retry": 9})
    await world.again()
    await world.rt.settle((await world.effect()).id, "absent", by="ada", because="nothing there")
    clock.advance(seconds=31)
    assert ((await world.again()).result, len(outside.calls)) == ("NotDone", 2)


async def test_an_effect_planned_as_joint_is_never_run_again_by_other_code(world: World) -> None:
    from perdure import tool

    def act(tx: Any, n: int) -> int:
        raise AssertionError("it acted")

    tool(name="act", replay="joint", gate=GATE)(act)
    outside = Outside("lost", "done")
    view = await world.run(once().bind())
    TOOLS.pop("act")
    outside.tool("idempotent", gate=GATE)
    await world.rt.approve(view.waits[0].id, by="ada", because="fine")
    view = await world.again()
    assert ([one.kind for one in view.waits], len(outside.calls)) == (["doubt"], 1)


@pytest.mark.parametrize("replay", ["idempotent", "pure"])
async def test_nothing_runs_again_beside_an_attempt_that_is_alive(
    world: World, clock: ManualClock, replay: str
) -> None:
    outside = Outside("died", "done")
    bound = once().bind()
    outside.tool(replay, gate=GATE, inflight="5s")
    view = await world.run(bound)
    await world.rt.approve(view.waits[0].id, by="ada", because="fine")
    with pytest.raises(StoreUnavailable):
        await world.again()
    world.crash()
    await lives(world, Liveness.ALIVE)
    for _ in range(3):
        view = await world.again()
        assert ([one.kind for one in view.waits], len(outside.calls)) == (["timer"], 1)
        clock.advance(seconds=6)
    await lives(world, Liveness.DEAD)
    assert ((await world.again()).result, len(outside.calls)) == (7, 2)


@BOTH
async def test_an_attempt_that_never_began_is_not_counted(world: World, clock: ManualClock) -> None:
    outside = Outside("failed", "done")
    outside.tool("escalate", retry=2)
    left = [1]

    def lose_the_lease(point: str) -> None:
        if point == "act.before" and left:
            left.pop()
            clock.advance(seconds=LEASE + 1)

    faults.arm(lose_the_lease)
    view = await world.run(once().bind())
    assert (view.result, len(outside.calls)) == (7, 2)
    first, *_ = await world.attempts(await world.effect())
    assert (first.outcome, first.error["code"]) == ("absent", "not-begun")


@BOTH
async def test_an_attempt_that_never_began_proves_nothing_about_an_earlier_one(
    world: World, clock: ManualClock
) -> None:
    """The first request landed and its answer was lost; the second never began, and meanwhile the key is too old."""
    outside = Outside("lost", "done")
    outside.tool("idempotent", retry=3, key_ttl="1s")
    points = []

    def lose_the_lease(point: str) -> None:
        if point == "act.before":
            points.append(point)
            if len(points) == 2:
                clock.advance(seconds=LEASE + 1)

    faults.arm(lose_the_lease)
    view = await world.run(once().bind())
    assert ([one.kind for one in view.waits], (await world.effect()).state) == (["doubt"], "dispatched")
    assert (len(points), len(outside.calls), len(outside.happened)) == (2, 1, 1)


async def test_a_verdict_on_an_effect_that_is_not_in_doubt_is_refused(world: World) -> None:
    from perdure import IllegalMove

    outside = Outside("died early", "done")
    outside.tool("probe")
    await world.dies(once().bind())
    effect = await world.effect()
    assert (effect.state, effect.doubted_at) == ("dispatched", None)
    for verdict in ("happened", "absent", "abandon"):
        with pytest.raises(IllegalMove, match="not in doubt"):
            await world.rt.settle(effect.id, verdict, by="ada", because="seen", result=1)
    assert (await world.effect()) == effect


@BOTH
async def test_the_rule_of_an_effect_is_recorded_with_its_plan(world: World) -> None:
    Outside().tool("idempotent", inflight="5s", key_ttl="1h", retry=4)
    await world.run(once().bind())
    effect = await world.effect()
    assert (effect.inflight, effect.key_ttl, effect.retry) == (5_000_000, 3_600_000_000, 4)
    world.verify()


async def never_begins_again(world: World, outside: Outside) -> None:
    """The first attempt is unknown; the second is dispatched and never begins; then the process dies."""
    acts: list[str] = []
    write = world.rt.store.write

    def lose_the_lease(point: str) -> None:
        if point == "act.before":
            acts.append(point)
            if len(acts) == 2:
                world.clock.advance(seconds=LEASE + 1)

    async def die_before_the_third(move: Any) -> Any:
        if move.name == "effect.dispatch" and len(acts) == 2:
            raise StoreUnavailable("This process is dead.")
        return await write(move)

    faults.arm(lose_the_lease)
    world.rt.store.write = die_before_the_third  # type: ignore[method-assign]
    await world.dies(once().bind())
    first, second = await world.attempts(await world.effect())
    assert (first.outcome, second.error["code"], len(outside.calls)) == ("unknown", "not-begun", 1)


@BOTH
async def test_a_cancelled_effect_is_not_refused_while_an_earlier_attempt_is_unknown(world: World) -> None:
    outside = Outside("lost")
    outside.tool("idempotent", retry=3)
    await never_begins_again(world, outside)
    await world.rt.cancel("s")
    view = await world.again()
    assert ((await world.effect()).state, [one.kind for one in view.waits]) == ("dispatched", ["doubt"])


async def test_a_forgotten_key_is_not_used_after_an_attempt_that_never_began(world: World, clock: ManualClock) -> None:
    outside = Outside("lost")
    outside.tool("idempotent", retry=3, key_ttl="1h")
    await never_begins_again(world, outside)
    clock.advance(seconds=3700)
    view = await world.again()
    assert ([one.kind for one in view.waits], len(outside.calls)) == (["doubt"], 1)
