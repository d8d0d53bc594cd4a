"""The recovery plan and the run that follows it make the same decision.

The cells are every replay rule, every last durable state, what the policy answers now, and what happened in between:
nothing, a request to stop, a restore, or less time than a request may be in flight.
"""

from __future__ import annotations

import pytest

from perdure import Session, program
from perdure.store.moves import restore
from tests.runtime.support.scripted_world import Outside, World

pytestmark = pytest.mark.databases("sqlite")  # the decision is a pure function; the reads are tested on both

DEEDS = {  # the first event that a run writes for each planned action
    "dispatch": "effect.dispatched",
    "run again": "effect.dispatched",
    "probe": "effect.recovered",
    "undo": "effect.recovered",
    "ask": "effect.doubted",
    "ask for approval": "approval.requested",
    "refuse": "effect.refused",
    "fail": "effect.failed",
}
LATER = "wait.opened"  # the deed of a decision that is not due yet


@pytest.mark.parametrize("meanwhile", ["nothing", "cancel", "restore", "no time"])
@pytest.mark.parametrize("answer", ["allow", "ask", "deny"])
@pytest.mark.parametrize("state", ["planned", "died early", "died"])
@pytest.mark.parametrize("replay", ["idempotent", "probe", "compensate", "escalate"])
async def test_plan_and_run_make_the_same_decision(
    world: World, replay: str, state: str, answer: str, meanwhile: str
) -> None:
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
        world.policy = lambda _: answer
        world.crash()
    else:
        world.policy = lambda _: answer
        world.rt.policy._rule = None
        await world.dies(work.bind())
    if meanwhile == "cancel":
        await world.rt.cancel("s", by="ada")
    if meanwhile == "restore":
        await world.rt.store.write(restore.declare(by="ada", because="from a backup", known=0))
    if meanwhile != "no time":
        world.clock.advance(seconds=60)
    before = await world.kinds()
    found = await world.rt.recovery_plan("s")
    if state == "planned" and meanwhile == "cancel":  # nothing has begun, so the session ends at once
        assert (found, (await world.rt.get("s")).status) == ([], "cancelled")
        return
    (plan,) = found
    await world.again()
    later = plan.not_before is not None and plan.not_before > world.clock.now() and plan.action != "probe"
    expected = LATER if later else DEEDS[plan.action]
    deeds = [kind for kind in (await world.kinds())[len(before) :] if kind in {*DEEDS.values(), LATER}]
    assert deeds[:1] == [expected], f"{plan.action}: {plan.why}"
