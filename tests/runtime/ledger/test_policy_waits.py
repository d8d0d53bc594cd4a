"""What keeps a session from being moved by this process at all: no policy, or no code."""

from __future__ import annotations

import pytest

from perdure import Agent, Session, Tool, program
from perdure.agent.model import Reply, Request, ToolCall
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.ledger.policy import Intent
from tests.runtime.support.scripted_world import Outside, World

pytestmark = [pytest.mark.anyio, pytest.mark.databases("sqlite", "postgres")]


def forbids(intent: Intent) -> str:
    return "deny" if intent.arguments["n"] == 1 else "allow"


def declare(outside: Outside) -> None:
    act: Tool[..., int] = outside.tool()

    @program
    async def acts(s: Session, n: int) -> int:
        await s.ask("Now?")
        return await s.do(act, n=n)

    @program
    async def begins(s: Session, n: int) -> int:
        return await s.child(acts.bind(n=n), id="child")


async def answered(world: World, name: str = "s") -> None:
    (asked,) = [one for one in (await world.rt.get(name)).waits if one.kind == "input"]
    await world.rt.answer(asked.id, "yes")


async def test_a_session_begun_under_a_policy_is_not_run_without_one(world: World) -> None:
    declare(outside := Outside())
    world.rt.close()
    world.policy = forbids
    world.rt = world.open()
    for id, n in (("s", 1), ("t", 2)):
        await world.run(PROGRAMS["acts"].bind(n=n), id)
    world.policy = None
    world.crash()
    for id in ("s", "t"):
        await answered(world, id)
        view = await world.again(id)
        assert (view.status, [one.kind for one in view.waits]) == ("waiting", ["policy"])
        assert [one.kind for one in (await world.again(id)).waits] == ["policy"]
    assert (outside.calls, await world.effects()) == ([], [])
    world.policy = forbids
    world.crash()
    assert (await world.again("t")).result == 7
    view = await world.again("s")
    assert (view.status, view.error["type"]) == ("failed", "PolicyDenied")
    assert len(outside.calls) == 1
    world.verify()


async def test_children_and_branches_of_a_session_under_a_policy_need_one_too(world: World) -> None:
    declare(Outside())
    world.rt.close()
    world.policy = forbids
    world.rt = world.open()
    view = await world.run(PROGRAMS["begins"].bind(n=2))
    world.policy = None
    world.crash()
    await answered(world, "child")
    assert [one.kind for one in (await world.rt.run("child")).waits] == ["policy"]
    branch = await world.rt.fork(view.id, id="branch")
    assert [one.kind for one in (await world.rt.run(branch.id)).waits] == ["policy"]


async def test_a_session_begun_without_a_policy_runs_anywhere(world: World) -> None:
    declare(Outside())
    await world.run(PROGRAMS["acts"].bind(n=2))
    assert (await world.rt.get("s")).policy_at is None
    await answered(world)
    assert (await world.again()).result == 7


class Acting:
    """Calls the tool once, and again after each message."""

    name = "scripted:acting"

    async def reply(self, request: Request, hear: object) -> Reply:
        if request.turns[-1].role == "tool":
            return Reply("Done.")
        return Reply(calls=(ToolCall("c", "act", {"n": 2}),), stop="calls")


@pytest.mark.parametrize("missing", ["program", "policy"])
async def test_an_agent_waits_for_its_code_and_for_a_policy(world: World, missing: str) -> None:
    agent = Agent("boss", model=Acting(), tools=[(outside := Outside()).tool()], policy=None)
    world.rt.close()
    world.policy = forbids
    world.rt = world.open()
    await world.run(agent.bind("begin"))
    await world.rt.send("s", "again")
    world.policy = None if missing == "policy" else forbids
    world.crash()
    if missing == "program":
        del PROGRAMS["boss"]
    view = await world.again()
    assert (view.status, [one.kind for one in view.waits]) == ("waiting", [missing])
    assert len(outside.calls) == 1
    world.policy, PROGRAMS["boss"] = forbids, agent
    world.crash()
    assert [one.kind for one in (await world.again()).waits] == ["input"]
    assert len(outside.calls) == 2


async def test_an_agent_whose_code_is_not_loaded_can_be_cancelled(world: World) -> None:
    agent = Agent("boss", model=Acting(), tools=[Outside().tool()], policy=None)
    await world.run(agent.bind("begin"))
    branch = await world.rt.fork("s", id="branch")
    del PROGRAMS["boss"]
    assert (await world.rt.cancel(branch.id)).status == "cancelled"
    assert (await world.rt.cancel("s")).status == "cancelled"
