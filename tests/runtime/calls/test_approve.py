"""`s.approve()`: a program asks people for approval."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure import ApprovalDecision, ConfigError, IllegalMove, Session, program
from tests.runtime.support.killed_calls import run_and_kill
from tests.runtime.support.people import as_person, register
from tests.runtime.support.receiving_app import asks_for_approval
from tests.runtime.support.scripted_world import World
from tests.seed import kill_points

MEMORY = pytest.mark.databases("memory")
DURABLE = pytest.mark.databases("sqlite", "files", "postgres")
TWO = pytest.mark.databases("sqlite", "postgres")


@program
async def deploys(s: Session, quorum: int = 1) -> list[Any]:
    decision = await s.approve("Deploy", detail={"version": 7}, quorum=quorum, timeout="1h")
    return [decision, bool(decision), str(await s.ask("More?"))]


@program
async def asks_twice_side_by_side(s: Session) -> list[str]:
    return list(await s.gather(s.approve("Deploy"), s.approve("Announce", timeout=60), s.approve("Deploy")))


@program
async def asks_wrongly(s: Session, title: str, quorum: Any, timeout: Any) -> None:
    await s.approve(title, quorum=quorum, timeout=timeout)


async def approval_id(world: World) -> str:
    return (await anext(world.rt.approvals(decision="waiting"))).id


async def answer_last(world: World) -> Any:
    waiting = await world.again()
    await world.rt.answer(waiting.waits[0].id, "no")
    world.crash()
    return (await world.again()).result


@DURABLE
async def test_decision_is_returned_in_every_run(world: World) -> None:
    await world.run(deploys.bind(), owner="ada")
    world.crash()
    asked = await approval_id(world)
    with pytest.raises(IllegalMove, match="ada requested approval"):
        await world.rt.approve(asked, by="ada", because="it is mine")
    await world.rt.approve(asked, by="grace", because="tests pass")
    assert await answer_last(world) == ["approved", True, "no"]
    effect = await world.effect()
    assert (effect.intent, effect.state) == ({"title": "Deploy", "detail": {"version": 7}}, "acknowledged")
    world.verify()


@TWO
async def test_denial_and_expiry_are_decisions_too(world: World) -> None:
    await world.run(deploys.bind())
    await world.rt.deny(await approval_id(world), by="grace", because="not today")
    assert await answer_last(world) == ["denied", False, "no"]
    await world.run(deploys.bind(), "t")
    world.clock.advance(hours=1)
    asked = await world.again("t")
    await world.rt.answer(asked.waits[0].id, "no")
    assert (await world.again("t")).result == ["expired", False, "no"]


@TWO
async def test_quorum_counts_people(world: World) -> None:
    await world.run(deploys.bind(2))
    asked = await approval_id(world)
    register(world.rt.store, "grace", "alan")
    for name in ("grace", "linus"):
        with as_person("grace"):
            await world.rt.approve(asked, by=name, because="fine")
    assert (await world.again()).waits[0].kind == "approval"
    with as_person("alan"):
        await world.rt.approve(asked, by="alan", because="fine")
    assert (await answer_last(world))[0] == ApprovalDecision.APPROVED


@TWO
async def test_requests_side_by_side_are_decided_one_by_one(world: World) -> None:
    await world.run(asks_twice_side_by_side.bind())
    asked = [one async for one in world.rt.approvals(decision="waiting")]
    assert len(asked) == 3
    by_title = {(await world.rt.effect(one.effect_id)).effect.intent["title"]: one for one in asked}
    await world.rt.deny(by_title["Deploy"].id, by="grace", because="no")
    (other,) = [one for one in asked if one.id not in {by_title["Deploy"].id, by_title["Announce"].id}]
    assert (await world.again()).status == "waiting"
    await world.rt.approve(other.id, by="grace", because="yes")
    world.clock.advance(seconds=120)
    done = await world.again()
    assert sorted(done.result) == ["approved", "denied", "expired"]
    assert done.result[1] == "expired"


@TWO
async def test_branch_inherits_a_decision(world: World) -> None:
    await world.run(deploys.bind())
    await world.rt.approve(await approval_id(world), by="grace", because="fine")
    waiting = await world.again()
    await world.rt.fork("s", at=waiting.cursor, id="b")
    branch = await world.rt.run("b")
    assert [one.kind for one in branch.waits] == ["input"]
    await world.rt.answer(branch.waits[0].id, "branch")
    assert (await world.rt.run("b")).result == ["approved", True, "branch"]


@MEMORY
async def test_no_policy_judges_a_request(world: World) -> None:
    seen: list[str] = []

    def denies(intent: perdure.Intent) -> str:
        seen.append(intent.tool)
        return "deny"

    world.policy = denies
    world.rt = world.open()
    assert [one.kind for one in (await world.run(deploys.bind())).waits] == ["approval"]
    assert seen == []


@MEMORY
@pytest.mark.parametrize(
    ("title", "quorum", "timeout"),
    [("a", 0, None), ("a", True, None), ("a", "2", None), ("a", 1, "soon"), ("a", 1, -1), (" ", 1, None)],
)
async def test_wrong_arguments_are_refused(world: World, title: str, quorum: Any, timeout: Any) -> None:
    ended = await world.run(asks_wrongly.bind(title, quorum, timeout))
    assert ended.error["code"] == ConfigError.code


@pytest.mark.slow
@TWO
async def test_kill_at_any_moment_asks_once_and_keeps_the_decision(target: str) -> None:
    code = -1
    for kill_at in kill_points(200, every=3):
        async with perdure.open(target) as rt:
            id = f"s-{kill_at}"
            await rt.start(asks_for_approval.bind(), id=id)
            script = f"""
                import tests.runtime.support.receiving_app
                await rt.run("{id}")
                asked = await anext(rt.approvals(session="{id}"))
                await rt.approve(asked.id, by="grace", because="fine")
                await rt.run("{id}")
            """
            code = await run_and_kill(target, script, kill_at)
            await rt.run(id)
            (asked,) = [one async for one in rt.approvals(session=id)]
            await rt.approve(asked.id, by="grace", because="fine")
            assert (await rt.complete(id)).result == "approved"
        if code == 0:
            break
    assert (code, kill_at > 8) == (0, True)
