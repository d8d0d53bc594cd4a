"""What people write to the record: facts, standing orders, tasks, outcomes of decisions; on both databases."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import perdure
from perdure import ConfigError, Conflict, IllegalMove, NotFound, Session, program, tool
from perdure.domain.fact import private_scope, repository_scope
from perdure.store.moves import event
from tests.runtime.support.killed_calls import run_and_kill
from tests.runtime.support.scripted_world import World

pytestmark = pytest.mark.databases("sqlite", "postgres")

EDITS = """
    await rt.set_fact("branch", "main", session="s")
    await rt.set_fact("branch", "main", scope="api")
    await rt.add_order("Run the tests.", name="tests", repository="/r")
    await rt.add_task("s", "Check the docs")
"""


@program
async def waits(s: Session) -> str:
    await s.task("read", id="read")
    await s.decide("comment", because="only style")
    return str(await s.ask("continue?"))


@tool
def act(n: int) -> int:
    return n


async def test_fact_of_a_session_is_recorded_in_its_log(world: World) -> None:
    view = await world.run(waits.bind())
    made = await world.rt.set_fact(
        "branch", {"is": "main"}, session="s", verify="git branch", stale_after="1h", by="ada"
    )
    assert (made.scope, made.version, made.updated_by) == (private_scope(view.uid), 1, "ada")
    assert (await world.rt.set_fact("branch", "next", session="s", expected=1)).version == 2
    world.clock.advance(seconds=9)
    assert (await world.rt.verify_fact("branch", session="s")).verified_at == world.clock.now()
    await world.rt.forget_fact("branch", session="s")
    assert [kind for kind in await world.kinds() if kind.startswith("fact.")] == [
        "fact.remembered", "fact.remembered", "fact.verified", "fact.forgotten",
    ]  # fmt: skip
    world.verify()
    with pytest.raises(NotFound):
        await world.rt.forget_fact("branch", session="s")


async def test_shared_fact_needs_no_session_and_detects_the_second_writer(world: World, folder: Path) -> None:
    made = await world.rt.set_fact("limit", 5, scope="customer:42", by="ada")
    assert (made.session_uid, made.updated_by, made.version) == (None, "ada", 1)
    with pytest.raises(Conflict):
        await world.rt.set_fact("limit", 6, scope="customer:42", expected=0)
    assert (await world.rt.set_fact("limit", 6, scope="customer:42", by="grace")).version == 2
    world.clock.advance(seconds=9)
    same = await world.rt.set_fact("limit", 6, scope="customer:42", by="grace")
    assert (same.version, same.verified_at) == (2, world.clock.now())
    assert (await world.rt.set_fact("k", 1, repository=folder)).scope == repository_scope(str(folder))
    await world.rt.forget_fact("limit", scope="customer:42")
    assert [one.key async for one in world.rt.facts(scope="customer:42")] == []


@pytest.mark.parametrize("scope", ["orders", "orders:x", "allowed:x", "session:x", "repository:x"])
async def test_reserved_scope_is_refused(world: World, scope: str) -> None:
    with pytest.raises(ConfigError, match="reserved"):
        await world.rt.set_fact("run_command", 1, scope=scope)
    with pytest.raises(ConfigError, match="exactly one"):
        await world.rt.set_fact("run_command", 1)


async def test_orders_belong_to_one_repository_or_to_every_agent(world: World, folder: Path) -> None:
    await world.rt.add_order("Be brief.", name="style", by="ada")
    made = await world.rt.add_order("Run the tests.", repository=folder)
    await world.rt.add_order("Never push.", repository=folder / "other")
    found = [one.value async for one in world.rt.orders(repository=folder)]
    assert found == ["Be brief.", "Run the tests."]
    assert [one.key async for one in world.rt.orders()] == ["style"]
    assert (await world.rt.add_order("Be short.", name="style")).version == 2
    assert (await world.rt.remove_order(made.key, repository=folder)).value == "Run the tests."
    assert [one.value async for one in world.rt.orders(repository=folder)] == ["Be short."]
    with pytest.raises(NotFound):
        await world.rt.remove_order("style", repository=folder)


async def test_edits_do_not_disturb_the_worker_that_holds_the_session(world: World) -> None:
    async def edit(n: int) -> int:
        await world.rt.add_task("s", f"task {n}", by="ada")
        await world.rt.set_fact("n", n, session="s", by="ada")
        return n

    @program
    async def works(s: Session) -> int:
        total = 0
        for n in range(3):
            total += await s.do(act, n=n)
            await s.step("edit", edit, n)
            total += await s.do(act, n=10 * n)
        return total

    view = await world.run(works.bind())
    assert (view.status, view.result) == ("done", 33)
    assert sorted([one.title async for one in world.rt.tasks(session="s")]) == ["task 0", "task 1", "task 2"]
    assert len([kind for kind in await world.kinds() if kind == "lease.acquired"]) == 1  # it was never lost
    world.verify()


async def test_tasks_and_decisions_of_a_running_program_are_its_own(world: World) -> None:
    await world.run(waits.bind())
    made = await world.rt.add_task("s", "Check the docs", by="ada")
    assert (made.state, (await world.rt.add_task("s", "Check the docs")).id) == ("open", made.id)
    (choice,) = [one async for one in world.rt.decisions(session="s")]
    with pytest.raises(IllegalMove, match="itself"):
        await world.rt.change_task("s", "read", "done")
    with pytest.raises(IllegalMove, match="itself"):
        await world.rt.settle_decision("s", choice.id, "commented")
    with pytest.raises(ConfigError):
        await world.rt.change_task("s", "read", "gone")  # type: ignore[arg-type]


async def test_decision_of_an_ended_session_can_be_settled(world: World) -> None:
    view = await world.run(waits.bind())
    await world.rt.answer(view.waits[0].id, "yes")
    assert (await world.again()).status == "done"
    (choice,) = [one async for one in world.rt.decisions(session="s")]
    made = await world.rt.settle_decision("s", choice.id[:6], "commented", by="ada")
    assert made.outcome == "commented"
    assert await world.rt.settle_decision("s", choice.id, "commented") == made
    with pytest.raises(Conflict):
        await world.rt.settle_decision("s", choice.id, "not commented")
    with pytest.raises(NotFound):
        await world.rt.settle_decision("s", "nothing", "x")
    with pytest.raises(IllegalMove):
        await world.rt.add_task("s", "too late")
    world.verify()
    last = (await world.rt.state_at("s")).decisions[choice.id]
    assert last["outcome"] == "commented"


@pytest.mark.parametrize("kill_at", range(1, 14, 2))
async def test_killed_edit_is_whole_or_absent_and_can_be_repeated(target: str, kill_at: int) -> None:
    async with perdure.open(target) as rt:
        await rt.start(waits.bind(), id="s")

    codes = [await run_and_kill(target, EDITS, at) for at in (kill_at, 0)]
    assert codes == [-signal.SIGKILL, 0]
    async with perdure.open(target) as rt:
        uid = (await rt.get("s")).uid
        assert [one.value async for one in rt.facts(scope=private_scope(uid))] == ["main"]
        shared = [one async for one in rt.facts(scope="api")] + [one async for one in rt.orders(repository="/r")]
        assert [(one.value, one.version) for one in shared] == [("main", 1), ("Run the tests.", 1)]
        assert [one.title async for one in rt.tasks(session="s")] == ["Check the docs"]
        await rt.store.read(event.verify, uid)
