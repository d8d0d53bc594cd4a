"""The recovery plan and the run that follows it make the same decision, for every rule and last durable state."""

from __future__ import annotations

import pytest

from perdure import Session, program
from tests.runtime.support.scripted_world import Outside, World

pytestmark = pytest.mark.databases("sqlite", "postgres")

DEEDS = {  # the first event about the effect that a run writes for each planned action
    "dispatch": "effect.dispatched",
    "run again": "effect.dispatched",
    "probe": "effect.recovered",
    "undo": "effect.recovered",
    "ask": "effect.doubted",
    "ask for approval": "approval.requested",
}


@pytest.mark.parametrize("asks", [False, True], ids=["allowed", "policy asks now"])
@pytest.mark.parametrize("state", ["planned", "died early", "died"])
@pytest.mark.parametrize("replay", ["idempotent", "probe", "compensate", "escalate"])
async def test_plan_and_run_make_the_same_decision(world: World, replay: str, state: str, asks: bool) -> None:
    outside = Outside("done" if state == "planned" else state, "done", "done")

    @program
    async def work(s: Session) -> int:
        got: int = await s.do(act, n=1)
        return got

    act = outside.tool(replay)
    if state == "planned":
        world.rt.policy._rule = lambda _: "ask"
        view = await world.run(work.bind())
        await world.rt.approve(view.waits[0].id, by="ada", because="go")
        world.policy = lambda _: "ask" if asks else "allow"
        world.crash()
    else:
        world.policy = lambda _: "ask" if asks else "allow"
        await world.dies(work.bind())
    before = await world.kinds()
    world.clock.advance(seconds=60)
    (plan,) = await world.rt.recovery_plan("s")
    await world.again()
    world.clock.advance(seconds=60)
    await world.again()
    deeds = [kind for kind in (await world.kinds())[len(before) :] if kind in DEEDS.values()]
    assert deeds[:1] == [DEEDS[plan.action]], f"{plan.action}: {plan.why}"
