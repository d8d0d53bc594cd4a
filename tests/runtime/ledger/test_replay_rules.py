"""The replay table of DESIGN 3, cell by cell, with a process that dies or an answer that is lost."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import (
    ConfigError,
    EffectCompensated,
    EffectInDoubt,
    IllegalMove,
    NotDone,
    Outcome,
    Program,
    Session,
    Tool,
    ToolError,
    program,
)
from perdure.domain.worker import Liveness
from perdure.runtime.queries import SessionView
from perdure.testing import ManualClock
from tests.runtime.support.scripted_world import Outside, World

pytestmark = pytest.mark.databases("sqlite", "postgres")
RULES = ("pure", "idempotent", "probe", "compensate", "escalate")


def once(tool: Tool[Any, Any]) -> Program[..., Any]:
    """A program that does it once and tells what it was told."""

    @program
    async def once(s: Session) -> Any:
        try:
            return await s.do(tool, n=1)
        except (NotDone, ToolError, EffectInDoubt, EffectCompensated) as error:
            return type(error).__name__

    return once


async def in_order(world: World, view: SessionView) -> SessionView:
    """Let time pass until the session waits for no timer."""
    while view.waits and all(one.kind == "timer" for one in view.waits):
        world.clock.advance(seconds=31)
        view = await world.again()
    return view


@pytest.mark.parametrize("replay", RULES)
async def test_acknowledged_is_returned_as_recorded_and_never_done_again(world: World, replay: str) -> None:
    outside = Outside()
    tool = outside.tool(replay)

    @program
    async def twice(s: Session) -> list[int]:
        first = await s.do(tool, n=1)
        await s.ask("continue?")
        return [first, await s.do(tool, n=1)]

    view = await world.run(twice.bind())
    await world.rt.answer(view.waits[0].id, "yes")
    world.crash()
    view = await world.again()
    assert (view.status, view.result, len(outside.calls)) == ("done", [7, 7], 2)
    assert len(set(outside.keys)) == 2
    assert [one.state for one in await world.effects()] == ["acknowledged", "acknowledged"]


@pytest.mark.parametrize("replay", RULES)
async def test_proven_failure_is_tried_again_with_the_same_key_while_retry_allows(world: World, replay: str) -> None:
    outside = Outside("failed", "failed", "done")
    view = await world.run(once(outside.tool(replay, retry=3)).bind())
    assert (view.status, view.result) == ("done", 7)
    assert (len(outside.calls), len(set(outside.keys)), len(outside.happened)) == (3, 1, 1)


@pytest.mark.parametrize("replay", RULES)
async def test_proven_failure_with_no_attempts_left_is_failed_for_good(world: World, replay: str) -> None:
    outside = Outside("failed", "failed", "done")
    view = await world.run(once(outside.tool(replay, retry=2)).bind())
    assert view.result == ("ToolError" if replay == "pure" else "NotDone")
    assert ((await world.effect()).state, len(outside.calls)) == ("failed", 2)


async def test_a_pure_tool_that_raises_is_retried_then_a_tool_error(world: World) -> None:
    outside = Outside("raise", "raise", "raise", "done")
    view = await world.run(once(outside.tool("pure", retry=3)).bind())
    assert (view.result, len(outside.calls), (await world.effect()).state) == ("ToolError", 3, "failed")


async def test_a_pure_tool_whose_process_died_runs_again(world: World) -> None:
    outside = Outside("died", "done")
    bound = once(outside.tool("pure")).bind()
    await world.dies(bound)
    assert (await world.again()).result == 7
    assert len(outside.calls) == 2


async def test_an_idempotent_tool_runs_again_with_the_same_key(world: World) -> None:
    outside = Outside("lost", "died", "done")
    await world.dies(once(outside.tool("idempotent", retry=3)).bind())
    view = await world.again()
    assert (view.result, len(outside.calls), len(set(outside.keys))) == (7, 3, 1)
    assert await world.outcomes(await world.effect()) == ["unknown", None, "acknowledged"]


async def test_an_idempotent_tool_asks_a_person_when_its_attempts_are_spent(world: World) -> None:
    outside = Outside("lost", "lost", "done")
    view = await world.run(once(outside.tool("idempotent", retry=2)).bind())
    assert ([one.kind for one in view.waits], len(outside.calls)) == (["doubt"], 2)


async def test_an_idempotent_tool_asks_its_probe_when_its_attempts_are_spent(world: World) -> None:
    outside = Outside("lost", "lost", "done")
    view = await world.run(once(outside.tool("idempotent", probe=True, retry=2)).bind())
    assert (view.result, len(outside.calls), len(outside.probed)) == (7, 2, 1)


async def test_an_idempotent_tool_without_attempts_whose_probe_finds_nothing_has_failed(world: World) -> None:
    outside = Outside("raise", "raise", "done")
    view = await world.run(once(outside.tool("idempotent", probe=True, retry=2)).bind())
    view = await in_order(world, view)
    assert (view.result, len(outside.calls)) == ("NotDone", 2)
    assert await world.outcomes(await world.effect()) == ["unknown", "absent"]


async def test_an_idempotent_key_that_may_be_forgotten_outside_is_not_used_again(world: World) -> None:
    outside = Outside("died", "done")
    await world.dies(once(outside.tool("idempotent", retry=9, key_ttl="10s")).bind())
    view = await world.again()
    assert ([one.kind for one in view.waits], len(outside.calls)) == (["doubt"], 1)


async def test_a_forgotten_key_is_used_again_when_the_probe_finds_nothing(world: World) -> None:
    outside = Outside("died early", "done")
    await world.dies(once(outside.tool("idempotent", retry=9, key_ttl="10s", probe=True)).bind())
    view = await in_order(world, await world.again())
    assert (view.result, len(outside.calls), len(outside.happened)) == (7, 2, 1)


@pytest.mark.parametrize("word", ["lost", "died"])
async def test_a_probe_that_finds_it_acknowledges_it_with_its_reference(world: World, word: str) -> None:
    outside = Outside(word)
    bound = once(outside.tool("probe")).bind()
    if word == "died":
        await world.dies(bound)
    view = await world.again() if word == "died" else await world.run(bound)
    effect = await world.effect()
    assert (view.result, effect.state, effect.reference, len(outside.calls)) == (7, "acknowledged", "r-1", 1)


@pytest.mark.parametrize("word", ["raise", "died early"])
async def test_absent_counts_only_inflight_after_the_act_is_known_to_have_ended(world: World, word: str) -> None:
    outside = Outside(word, "done")
    bound = once(outside.tool("probe", inflight="30s")).bind()
    if word == "died early":
        await world.dies(bound)
    view = await world.again() if word == "died early" else await world.run(bound)
    ended = (await world.attempts(await world.effect()))[-1].ended_at
    assert [(one.kind, one.due_at) for one in view.waits] == [("timer", (ended or 0) + 30_000_000)]
    world.clock.advance(seconds=29)
    assert (await world.again()).status == "waiting"
    world.clock.advance(seconds=1)
    view = await world.again()
    assert (view.result, len(outside.calls), len(set(outside.keys)), len(outside.probed)) == (7, 2, 1, 2)


@pytest.mark.parametrize("word", ["raise", "died early"])
async def test_a_clock_that_is_set_forward_does_not_shorten_inflight(world: World, word: str) -> None:
    outside = Outside(word)
    bound = once(outside.tool("probe", inflight="30s")).bind()
    if word == "raise":
        await world.run(bound)
    else:
        await world.dies(bound)
        await world.again()  # finds it dead
    assert len(outside.calls) == 1
    world.clock.set(hours=1)
    world.clock.advance(seconds=10)
    world.rt.close()
    world.rt = world.open()
    await world.again()
    assert len(outside.calls) == 1, "it may still be in flight"
    world.clock.advance(seconds=20)
    view = await world.again()
    assert (view.status, len(outside.calls)) == ("done", 2)


async def test_an_effect_that_lands_during_inflight_is_not_repeated(world: World) -> None:
    outside = Outside("raise")
    await world.run(once(outside.tool("probe")).bind())
    outside.happened.append(outside.keys[0])
    world.clock.advance(seconds=31)
    assert ((await world.again()).result, len(outside.calls)) == (7, 1)


@pytest.mark.parametrize("replay", ["probe", "compensate"])
async def test_a_person_is_asked_if_the_act_may_still_run(world: World, replay: str) -> None:
    outside = Outside("died early")
    await world.dies(once(outside.tool(replay)).bind())
    assert world.rt.worker.life_of({"id": "w"}) is Liveness.CANNOT_TELL
    world.rt.life_of = lambda attempt: Liveness.CANNOT_TELL  # type: ignore[method-assign]
    view = await world.again()
    assert ([one.kind for one in view.waits], outside.undone) == (["doubt"], [])


@pytest.mark.parametrize("replay", ["probe", "compensate"])
async def test_no_one_is_asked_while_the_act_is_known_to_run(world: World, replay: str) -> None:
    outside = Outside("died early", "done")
    await world.dies(once(outside.tool(replay)).bind())
    real = world.rt.life_of
    world.rt.life_of = lambda attempt: Liveness.ALIVE  # type: ignore[method-assign]
    for _ in range(3):
        view = await world.again()
        assert ([one.kind for one in view.waits], len(outside.calls), outside.undone) == (["timer"], 1, [])
        world.clock.advance(seconds=31)
    world.rt.life_of = real  # type: ignore[method-assign]
    view = await in_order(world, await world.again())
    assert (view.result, len(outside.happened)) == (7, 1)


@pytest.mark.parametrize("answer", [Outcome.unknown("too old to tell"), "nonsense", Outcome.happened("no int")])
async def test_a_probe_without_an_answer_asks_a_person(world: World, answer: Any) -> None:
    outside = Outside("lost")
    outside.answers = [answer]
    view = await world.run(once(outside.tool("probe")).bind())
    assert ([one.kind for one in view.waits], len(outside.calls)) == (["doubt"], 1)
    assert len(outside.probed) == 1
    await world.again()
    assert len(outside.probed) == 1, "a doubt is settled by a person, and not by asking again and again"


async def test_probe_attempts_are_bounded_by_retry(world: World) -> None:
    outside = Outside("raise", "raise", "done")
    view = await in_order(world, await world.run(once(outside.tool("probe", retry=2)).bind()))
    assert (view.result, len(outside.calls)) == ("NotDone", 2)


@pytest.mark.parametrize("word", ["lost", "died"])
async def test_compensate_undoes_and_then_plans_a_successor_with_a_new_key(world: World, word: str) -> None:
    outside = Outside(word, "done")
    bound = once(outside.tool("compensate")).bind()
    if word == "died":
        await world.dies(bound)
    view = await world.again() if word == "died" else await world.run(bound)
    assert (outside.undone, [one.kind for one in view.waits]) == ([], ["timer"]), "a request may still be in flight"
    view = await in_order(world, view)
    first, undo, second = await world.effects()
    assert (view.result, outside.undone, len(outside.happened), len(set(outside.keys))) == (7, [None], 1, 2)
    assert [one.state for one in (first, undo, second)] == ["superseded", "acknowledged", "acknowledged"]
    assert (undo.position, second.supersedes, second.generation) == (["undo", first.id], first.id, 1)
    assert second.idempotency_key != first.idempotency_key


async def test_an_interrupted_undo_is_repeated_with_its_own_key(world: World) -> None:
    outside = Outside("lost", "done")
    outside.undo_script = ["died", "done"]
    view = await world.run(once(outside.tool("compensate")).bind())
    world.clock.advance(seconds=31)
    with pytest.raises(Exception, match="dead"):
        await world.again()
    world.crash()
    view = await in_order(world, await world.again())
    assert (view.result, outside.undone, len(outside.happened)) == (7, [None, None], 1)
    assert [one.state for one in await world.effects()] == ["superseded", "acknowledged", "acknowledged"]


@pytest.mark.parametrize("word", ["raise", "failed"])
async def test_a_failed_undo_puts_the_original_in_doubt(world: World, word: str) -> None:
    outside = Outside("lost")
    outside.undo_script = [word] * 3
    view = await in_order(world, await world.run(once(outside.tool("compensate", retry=3)).bind()))
    original, undo = await world.effects()
    assert [(one.kind, one.ref) for one in view.waits] == [("doubt", original.id)]
    assert (original.state, undo.state, undo.doubted_at) == ("dispatched", "failed", None)
    await world.rt.settle(original.id, "happened", by="ada", because="it is there", result=7)
    assert (await world.again()).result == 7


async def test_generations_are_bounded_by_retry(world: World) -> None:
    outside = Outside(*["lost"] * 9)
    view = await in_order(world, await world.run(once(outside.tool("compensate", retry=2)).bind()))
    assert (view.result, len(outside.calls), outside.happened) == ("EffectCompensated", 2, [])


@pytest.mark.parametrize("word", ["lost", "raise", "died"])
async def test_escalate_makes_one_attempt_and_asks_a_person(world: World, word: str) -> None:
    outside = Outside(word)
    bound = once(outside.tool("escalate")).bind()
    if word == "died":
        await world.dies(bound)
    view = await world.again() if word == "died" else await world.run(bound)
    effect = await world.effect()
    assert [(one.kind, one.ref) for one in view.waits] == [("doubt", effect.id)]
    assert (len(outside.calls), effect.doubted_at is not None, effect.state) == (1, True, "dispatched")


async def in_doubt(world: World, outside: Outside, **options: Any) -> str:
    await world.run(once(outside.tool("escalate", **options)).bind())
    return (await world.effect()).id


async def test_verdict_happened_gives_the_program_the_result(world: World) -> None:
    outside = Outside("lost")
    id = await in_doubt(world, outside)
    with pytest.raises(ConfigError, match="returns a value"):
        await world.rt.settle(id, "happened", by="ada", because="seen")
    with pytest.raises(ConfigError):
        await world.rt.settle(id, "happened", by="ada", because="seen", result="not an int")
    await world.rt.settle(id, "happened", by="ada", because="seen", result=9, reference="c-9")
    view, effect = await world.again(), await world.effect()
    assert (view.result, len(outside.calls)) == (9, 1)
    assert (effect.verdict, effect.verdict_by, effect.reference) == ("happened", "ada", "c-9")


async def test_verdict_absent_authorises_one_attempt_and_waits_until_nothing_is_in_flight(
    world: World, clock: ManualClock
) -> None:
    outside = Outside("raise", "raise")
    id = await in_doubt(world, outside, retry=1)
    effect = await world.rt.settle(id, "absent", by="ada", because="nothing there")
    assert (effect.state, effect.verdict) == ("planned", "absent")
    view = await world.again()
    assert ([one.kind for one in view.waits], len(outside.calls)) == (["timer"], 1)
    clock.advance(seconds=30)
    view = await world.again()
    assert ([one.kind for one in view.waits], len(outside.calls)) == (["doubt"], 2), "one attempt, and no more"
    assert len(set(outside.keys)) == 1


async def test_verdict_absent_waits_for_the_act_or_counts_from_the_verdict(world: World, clock: ManualClock) -> None:
    outside = Outside("died early", "done")
    await world.dies(once(outside.tool()).bind())
    lives = {"now": Liveness.ALIVE}
    world.rt.life_of = lambda attempt: lives["now"]  # type: ignore[method-assign]
    await world.again()
    await world.rt.settle((await world.effect()).id, "absent", by="ada", because="nothing there")
    for _ in range(3):
        assert (await world.again()).status == "waiting"
        clock.advance(seconds=40)
    assert len(outside.calls) == 1
    lives["now"] = Liveness.CANNOT_TELL
    assert (await world.again()).result == 7


async def test_verdict_abandon_raises_and_never_tries_again(world: World) -> None:
    outside = Outside("lost")
    id = await in_doubt(world, outside)
    await world.rt.settle(id, "abandon", by="ada", because="not worth it")
    view, effect = await world.again(), await world.effect()
    assert (view.result, effect.state, len(outside.calls)) == ("EffectInDoubt", "failed", 1)


async def test_a_verdict_needs_a_doubt_a_reason_and_a_known_word(world: World) -> None:
    outside = Outside("lost")
    id = await in_doubt(world, outside)
    with pytest.raises(ConfigError, match="reason"):
        await world.rt.settle(id, "absent", by="ada", because=" ")
    with pytest.raises(ConfigError, match="perhaps"):
        await world.rt.settle(id, "perhaps", by="ada", because="seen")  # type: ignore[arg-type]
    await world.rt.settle(id, "abandon", by="ada", because="seen")
    await world.rt.settle(id, "abandon", by="ada", because="seen")
    with pytest.raises(IllegalMove):
        await world.rt.settle(id, "happened", by="ada", because="seen", result=1)


async def test_a_result_that_may_be_none_needs_no_value(world: World) -> None:
    from perdure import tool

    @tool
    def gone() -> None:
        raise OSError("cut")

    @program
    async def maybe(s: Session) -> str:
        return repr(await s.do(gone))

    await world.run(maybe.bind())
    await world.rt.settle((await world.effect()).id, "happened", by="ada", because="seen")
    assert (await world.again()).result == "None"
