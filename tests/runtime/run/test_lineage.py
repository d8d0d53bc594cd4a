"""Forks: a branch inherits what was settled and cannot repeat it, and waits for what was not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import Conflict, EffectCompensated, NotFound, Session, program, tool
from perdure.domain.effect import Verdict
from perdure.runtime.queries import SessionView
from perdure.runtime.run.lineage import wake_stale_branches
from perdure.store.moves import doubt, wait
from perdure.store.moves import session as sessions
from tests.runtime.support.scripted_world import GATE, Outside, World

pytestmark = pytest.mark.databases("sqlite", "postgres")
MEMORY = pytest.mark.databases("memory")


async def branch(world: World, at: int | None = None, of: str = "s", id: str = "b") -> SessionView:
    await world.rt.fork(of, at=at, id=id)
    return await world.rt.run(id)


async def planned_at(world: World, place: int = 0, id: str = "s") -> int:
    return (await world.effects(id))[place].number


async def test_a_branch_inherits_what_was_settled_and_never_repeats_it(world: World) -> None:
    outside, ran = Outside(), []

    def compute() -> int:
        ran.append(1)
        return 5

    act = outside.tool()

    @program
    async def work(s: Session) -> list[Any]:
        got = [await s.step("n", compute), await s.do(act, n=1), await s.ask("colour?")]
        return [*got, await s.ask("size?"), await s.do(act, n=2)]

    view = await world.run(work.bind())
    await world.rt.answer(view.waits[0].id, "blue")
    view = await world.again()
    b = await branch(world)
    assert ([one.detail["question"] for one in b.waits], len(ran), len(outside.calls)) == (["size?"], 1, 1)
    await world.rt.answer(b.waits[0].id, "large")
    assert (await world.rt.run("b")).result == [5, 7, "blue", "large", 7]
    await world.rt.answer(view.waits[0].id, "small")
    assert (await world.again()).result == [5, 7, "blue", "small", 7]
    assert (len(outside.calls), len(set(outside.keys))) == (3, 3), "what comes after the fork is each one's own"


async def test_effects_planned_after_the_fork_are_not_inherited(world: World) -> None:
    outside = Outside()
    act = outside.tool()

    @program
    async def work(s: Session) -> list[int]:
        return [await s.do(act, n=1), await s.do(act, n=2)]

    await world.run(work.bind())
    first, second = await world.effects()
    await world.rt.fork("s", at=first.settled_number, id="b")
    plan = await world.rt.recovery_plan("b")
    assert [(one.effect_id, one.action) for one in plan] == [(second.id, "not inherited")]
    assert ((await world.rt.run("b")).result, len(outside.calls)) == ([7, 7], 3)


@pytest.mark.parametrize("by", ["its session", "a person"])
async def test_an_effect_unsettled_at_the_fork_is_waited_for(world: World, by: str) -> None:
    outside = Outside("lost")
    act = outside.tool("escalate")

    @program
    async def work(s: Session) -> int:
        got: int = await s.do(act, n=1)
        return got

    await world.run(work.bind())
    effect = await world.effect()
    b = await branch(world)
    assert ([(one.kind, one.ref) for one in b.waits], len(outside.calls)) == ([("effect", effect.id)], 1)
    assert [one.action for one in await world.rt.recovery_plan("b")] == ["wait for its session"]
    assert (await world.rt.run("b")).status == "waiting"
    if by == "a person":
        await world.rt.settle(effect.id, "happened", by="ada", because="seen", result=9)
    else:
        await world.rt.settle(effect.id, "absent", by="ada", because="nothing there")
        assert (await world.rt.run("b")).status == "waiting"
        world.clock.advance(seconds=31)
        await world.again()
    assert (await world.rt.get("b")).status == "ready", "it was told"
    assert (await world.rt.run("b")).result == (await world.again()).result == (9 if by == "a person" else 7)
    assert len(outside.happened) == (1 if by == "a person" else 2)


async def test_a_worker_wakes_a_branch_that_missed_the_notification(world: World) -> None:
    """The process that settled the effect was killed before it told the branch."""
    act = Outside("lost").tool("escalate")

    @program
    async def work(s: Session) -> int:
        got: int = await s.do(act, n=1)
        return got

    await world.run(work.bind())
    effect = await world.effect()
    await branch(world)
    await wake_stale_branches(world.rt.store, "w")
    assert (await world.rt.get("b")).status == "waiting"
    said = doubt.record_verdict(effect.session_uid, "ada", effect.id, Verdict.HAPPENED, because="seen", result="9")
    await world.rt.store.write(said)
    await wake_stale_branches(world.rt.store, "w")
    assert (await world.rt.get("b")).status == "ready"
    assert (await world.rt.run("b")).result == 9


async def test_a_branch_whose_wait_was_resolved_too_early_waits_again(world: World) -> None:
    """A process with other code takes the effect for closed, and resolves the wait; here it is open."""
    act = Outside("lost").tool("escalate")

    @program
    async def work(s: Session) -> int:
        got: int = await s.do(act, n=1)
        return got

    await world.run(work.bind())
    effect = await world.effect()
    b = await branch(world)
    for _ in range(2):
        (asked,) = (await world.rt.get("b")).waits
        await world.rt.store.write(wait.resolve(b.uid, "elsewhere", asked.id, "compensated"))
        async with asyncio.timeout(60):
            assert (await world.rt.run("b")).status == "waiting"
    await world.rt.settle(effect.id, "happened", by="ada", because="seen", result=9)
    assert (await world.rt.run("b")).result == 9


async def test_a_branch_follows_an_undone_effect_to_its_successor(world: World) -> None:
    outside = Outside("lost", "done")
    act = outside.tool("compensate")

    @program
    async def work(s: Session) -> int:
        got: int = await s.do(act, n=1)
        return got

    await world.run(work.bind())
    await world.rt.fork("s", at=await planned_at(world), id="b")
    assert [one.kind for one in (await world.rt.run("b")).waits] == ["effect"]
    world.clock.advance(seconds=31)
    assert (await world.again()).result == 7
    assert ((await world.rt.run("b")).result, len(outside.calls)) == (7, 2)


async def test_a_branch_learns_that_an_inherited_effect_was_undone(world: World) -> None:
    from perdure.store.moves import doubt, lease
    from perdure.store.moves import effect as effects
    from tests.runtime.ledger.test_effect_states import DISPATCH, DONE, an_intent

    act = Outside().tool("compensate")

    @program
    async def work(s: Session) -> str:
        try:
            return str(await s.do(act, n=1))
        except EffectCompensated:
            return "undone"
        finally:
            await s.ask("continue?")

    view = await world.run(work.bind())
    await world.rt.fork("s", id="b")
    effect, store = await world.effect(), world.rt.store
    await store.write(sessions.wake_up(view.uid, "w"))
    holder = await store.write(lease.acquire(view.uid, "w", nonce="n-1", ttl=60))
    undo = an_intent("e-undo", position=f'["undo", "{effect.id}"]')
    await store.write(effects.plan_and_dispatch(holder, undo, DISPATCH))
    await store.write(effects.settle(view.uid, "w", "e-undo", 1, DONE))
    await store.write(doubt.record_compensation(holder, effect.id, by_effect="e-undo"))
    b = await world.rt.run("b")
    await world.rt.answer(b.waits[0].id, "yes")
    assert (await world.rt.run("b")).result == "undone"


async def test_a_fork_of_a_fork_inherits_the_whole_lineage(world: World) -> None:
    outside = Outside()
    act = outside.tool()

    @program
    async def work(s: Session) -> list[Any]:
        got = [await s.do(act, n=n) for n in range(8)]
        for n in range(3):
            got.append(await s.ask(f"{n}?"))
            got.append(await s.do(act, n=100 + n))
        return got

    view = await world.run(work.bind())
    for before, id in (("s", "b"), ("b", "c")):
        await world.rt.answer((await world.rt.get(before)).waits[0].id, before)
        await world.rt.run(before)
        view = await branch(world, of=before, id=id)
    assert (len(outside.calls), [one.detail["question"] for one in view.waits]) == (10, ["2?"])
    await world.rt.answer(view.waits[0].id, "c")
    assert (await world.rt.run("c")).result == [*[7] * 8, "s", 7, "b", 7, "c", 7]
    assert len(outside.calls) == 11


async def test_a_fork_before_a_restart_begins_in_the_round_of_the_fork(world: World) -> None:
    outside = Outside()
    act = outside.tool()

    @program
    async def rounds(s: Session, round: int = 0) -> list[Any]:
        got = await s.do(act, n=round)
        answer = await s.ask(f"round {round}?")
        if answer == "more":
            await s.restart(round=round + 1)
        return [round, got, answer]

    view = await world.run(rounds.bind())
    fork_at = view.cursor
    await world.rt.answer(view.waits[0].id, "more")
    view = await world.again()
    b = await branch(world, at=fork_at)
    assert (b.restart_number, b.waits[0].detail["question"], len(outside.calls)) == (0, "round 0?", 2)
    await world.rt.answer(b.waits[0].id, "more")
    b = await world.rt.run("b")
    assert (b.restart_number, len(outside.calls)) == (1, 3)
    c = await branch(world, id="c")
    assert (c.restart_number, c.waits[0].detail["question"], len(outside.calls)) == (1, "round 1?", 3)
    await world.rt.answer(c.waits[0].id, "enough")
    assert (await world.rt.run("c")).result == [1, 7, "enough"]


async def test_a_branch_waits_for_the_existing_child_of_its_lineage(world: World) -> None:
    outside = Outside()
    act = outside.tool()

    @program
    async def young(s: Session) -> int:
        await s.ask("may I?")
        got: int = await s.do(act, n=1)
        return got

    @program
    async def old(s: Session) -> int:
        return await s.child(young.bind(), id="the-child")

    await world.run(old.bind())
    b = await branch(world)
    assert [one.kind for one in b.waits] == ["child"]
    await world.rt.answer((await world.rt.get("the-child")).waits[0].id, "yes")
    assert (await world.rt.run("b")).result == (await world.again()).result == 7
    assert len(outside.calls) == 1


async def test_a_branch_plans_refused_effects_and_asks_open_questions_again(
    world: World,
) -> None:
    outside = Outside()
    act = outside.tool(gate=GATE)

    @program
    async def work(s: Session) -> list[Any]:
        return [await s.do(act, n=1), await s.ask("continue?")]

    view = await world.run(work.bind())
    await world.rt.cancel("s")
    await world.again()
    b = await branch(world, at=view.cursor)
    assert [one.kind for one in b.waits] == ["approval"]
    await world.rt.approve(b.waits[0].id, by="grace", because="yes")
    b = await world.rt.run("b")
    await world.rt.cancel("b")
    await world.rt.run("b")
    c = await branch(world, of="b", id="c")
    assert ([one.kind for one in c.waits], len(outside.calls)) == (["input"], 1), "there was no answer to inherit"


@MEMORY
async def test_a_branch_keeps_decisions_tasks_and_private_facts(world: World) -> None:
    @program
    async def keeps(s: Session) -> Any:
        d = await s.decide("go left", because="shorter")
        top = await s.task("top", id="top")
        below = await s.task("below", parent="top")
        await s.remember("colour", "blue")
        await s.ask("continue?")
        await d.settle("arrived")
        await below.become("done")
        await top.become("done")
        return await s.recall("colour")

    await world.run(keeps.bind())
    b = await branch(world)
    await world.rt.answer(b.waits[0].id, "yes")
    b = await world.rt.run("b")
    assert (b.status, b.result) == ("done", "blue"), b.error
    assert [one.state async for one in world.rt.tasks(session="b")] == ["done", "done"]


@MEMORY
async def test_a_fork_needs_an_event_and_a_free_name(world: World) -> None:
    @program
    async def work(s: Session) -> None:
        await s.ask("continue?")

    await world.run(work.bind())
    with pytest.raises(NotFound):
        await world.rt.fork("s", at=999)
    await world.rt.fork("s", at=2, id="b")
    assert (await world.rt.fork("s", at=2, id="b")).id == "b"
    with pytest.raises(Conflict):
        await world.rt.fork("s", at=3, id="b")


async def test_a_branch_continues_when_the_session_it_waits_for_is_cancelled(world: World) -> None:
    outside = Outside()
    act = outside.tool(gate=GATE)

    @program
    async def work(s: Session) -> int:
        return await s.do(act, n=1)

    await world.run(work.bind())
    assert [one.kind for one in (await branch(world)).waits] == ["effect"]
    assert (await world.rt.cancel("s")).status == "cancelled"
    assert (await world.rt.get("b")).status == "ready"
    assert [one.kind for one in (await world.rt.run("b")).waits] == ["approval"]
    assert outside.calls == []


@tool
def review_kid_lost(n: int) -> int:
    raise OSError("the line was cut")


@program
async def review_doubtful_kid(s: Session) -> int:
    return await s.do(review_kid_lost, n=1)


@program
async def review_doubtful_parent(s: Session) -> int:
    return await s.child(review_doubtful_kid.bind())


async def test_a_branch_survives_a_cancelled_parent_with_a_child_in_doubt(world: World) -> None:
    await world.run(review_doubtful_parent.bind())
    branch = await world.rt.fork("s")
    await world.rt.cancel("s")
    assert (await world.again()).status == "cancelled"
    view = await world.rt.run(branch.id)
    assert (view.status, view.error) == ("waiting", None)
