"""Undo on request: what was done is taken back once, the program is told, and a crash changes nothing about it."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Call, EffectCompensated, Session, program, tool
from perdure.errors import ConfigError, IllegalMove
from perdure.runtime.definitions.program import PROGRAMS, Bound
from tests.runtime.support.scripted_world import Outside, World

pytestmark = pytest.mark.anyio


def acting(outside: Outside, **options: Any) -> None:
    """A program that acts and then asks; it says when it hears that its act was undone."""
    act = outside.tool("compensate", **options)

    @program
    async def acts(s: Session) -> str:
        try:
            await s.do(act, n=1)
        except EffectCompensated:
            return "undone"
        return str(await s.ask("Keep it?"))


def bound() -> Bound[str]:
    return PROGRAMS["acts"].bind()


async def undo(world: World, id: str = "s") -> str:
    (effect, *_) = await world.effects(id)
    return (await world.rt.undo(effect.id, by="ada", because="not that one")).state


async def test_an_acknowledged_effect_is_undone_and_the_program_is_notified(world: World) -> None:
    outside = Outside()
    acting(outside)
    assert (await world.run(bound())).status == "waiting"
    assert await undo(world) == "compensated"
    assert outside.undone == [7]  # what it returned
    assert (await world.rt.get("s")).status == "ready"
    assert (await world.again()).result == "undone"
    original, undoing = await world.effects()
    assert (original.state, original.undo_requested_at, original.undo_by) == ("compensated", None, "ada")
    assert (undoing.position, undoing.state) == (["undo", original.id], "acknowledged")
    assert "effect.undo_requested" in await world.kinds()
    world.verify()
    state = await world.rt.state_at("s")
    assert state.effects[original.id]["state"] == "compensated"


async def test_an_effect_of_an_ended_session_is_not_undone(world: World) -> None:
    outside = Outside()
    acting(outside)
    view = await world.run(bound())
    await world.rt.answer(view.waits[0].id, "yes")
    assert (await world.again()).status == "done"
    with pytest.raises(IllegalMove, match="Session s is done; its effects can no longer be undone"):
        await undo(world)
    assert outside.undone == []


async def test_only_acknowledged_effects_can_be_undone_and_only_with_a_reason(world: World) -> None:
    outside = Outside("lost")
    act = outside.tool(name="act")

    @program
    async def acts(s: Session) -> None:
        await s.do(act, n=1)

    await world.run(acts.bind())
    effect = await world.effect()
    with pytest.raises(ConfigError, match="Tool act has no undo"):
        await world.rt.undo(effect.id, by="ada", because="so")

    @act.undo
    def _(call: Call, result: int | None, n: int) -> None: ...

    with pytest.raises(IllegalMove, match="is dispatched; only an acknowledged"):
        await world.rt.undo(effect.id, by="ada", because="so")
    with pytest.raises(ConfigError, match="reason"):
        await world.rt.undo(effect.id, by="ada", because=" ")


@pytest.mark.databases("sqlite", "files", "postgres")
async def test_a_process_that_dies_in_the_undo_leaves_it_to_the_next(world: World) -> None:
    outside = Outside()
    outside.undo_script = ["died"]
    acting(outside)
    await world.run(bound())
    effect = await world.effect()
    with pytest.raises(Exception, match="dead"):
        await world.rt.undo(effect.id, by="ada", because="not that one")
    world.crash()
    assert (await world.again()).result == "undone"
    assert [one.state for one in await world.effects()] == ["compensated", "acknowledged"]
    assert outside.happened == []


async def test_a_failed_undo_leaves_the_effect_and_may_be_requested_again(world: World) -> None:
    outside = Outside()
    outside.undo_script = ["failed"]
    acting(outside, retry=1)
    await world.run(bound())
    assert await undo(world) == "acknowledged"
    assert "effect.undo_failed" in await world.kinds()
    assert (await world.again()).status == "waiting"  # it asks again whether to keep it
    assert await undo(world) == "compensated"
    assert [one.state for one in await world.effects()] == ["compensated", "failed", "acknowledged"]
    assert (await world.again()).result == "undone"


async def test_a_person_is_asked_about_an_undo_with_unknown_outcome(world: World) -> None:
    outside = Outside()
    outside.undo_script = ["raise"] * 3
    acting(outside)
    await world.run(bound())
    assert await undo(world) == "acknowledged"
    (asked,) = [one for one in (await world.rt.get("s")).waits if one.kind == "doubt"]
    assert (await world.rt.get("s")).status == "waiting"
    assert await undo(world) == "acknowledged"  # asking again changes nothing
    await world.rt.settle(str(asked.ref), "happened", by="ada", because="it is gone")
    assert (await world.again()).result == "undone"


async def test_the_running_process_undoes_before_it_leaves_the_session(world: World) -> None:
    outside = Outside()
    act = outside.tool("compensate")

    @tool(name="regret")
    async def regret() -> None:
        effect = next(iter(await world.effects()))
        asked = await world.rt.undo(effect.id, by="ada", because="while it runs")  # held: the one who runs it does it
        assert (asked.state, asked.undo_by) == ("acknowledged", "ada")

    @program
    async def acts(s: Session) -> str:
        try:
            await s.do(act, n=1)
        except EffectCompensated:
            return "undone"
        await s.do(regret)
        return "kept"

    assert (await world.run(acts.bind())).result == "undone"
    assert outside.undone == [7]
    world.verify()


async def test_an_undo_needs_the_lease_that_its_effect_needed(world: World) -> None:
    outside = Outside("done", "lost")
    acting(outside, leases=("branch:main",), inflight="30s")
    await world.run(bound(), "a")
    await world.run(bound(), "b")  # its outcome is unknown, and it holds the branch
    assert await undo(world, "a") == "acknowledged"
    assert [one.kind for one in (await world.rt.get("a")).waits if one.ref == "branch:main"] == ["lease"]
    assert outside.undone == []


async def test_a_branch_is_notified_that_an_inherited_effect_was_undone(world: World) -> None:
    outside = Outside()
    acting(outside)
    await world.run(bound())
    branch = await world.rt.fork("s")
    assert await undo(world) == "compensated"
    assert (await world.again(branch.id)).result == "undone"


async def test_a_request_to_undo_is_part_of_the_recovery_plan(world: World) -> None:
    outside = Outside()
    acting(outside)
    await world.run(bound())
    effect = await world.effect()
    await world.rt.ask_undo(effect.id, by="ada", because="not that one")
    (planned,) = await world.rt.recovery_plan("s")
    assert (planned.effect_id, planned.action) == (effect.id, "undo")
    assert "ada asks" in planned.why
