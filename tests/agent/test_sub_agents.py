"""An agent as a tool of another: a child session, once, with its costs and its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from perdure import Agent, Gate
from perdure.errors import SessionFailed, SessionWaiting
from perdure.testing import ScriptedModel
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import RecordingModel, calls
from tests.seed import kill_points

pytestmark = pytest.mark.databases("sqlite", "postgres")


class Point(msgspec.Struct):
    x: int


async def test_answer_of_a_sub_agent_is_the_result_of_the_call(target: str) -> None:
    helper = Agent("helper", model=RecordingModel(["Four."]), tools=[])
    model = RecordingModel([calls(("math", {"task": "2 + 2"})), "It is four."])
    agent = Agent("asks", model=model, tools=[helper.as_tool("math", "Do arithmetic.")])
    async with open_runtime(target) as runtime:
        assert (await agent.run("Add.", id="sum", runtime=runtime)).output == "It is four."
        children = [one async for one in runtime.sessions() if one.parent_uid is not None]
        assert [(one.program, one.status) for one in children] == [("helper", "done")]
    (offer,) = model.requests[0].tools
    assert (offer.name, offer.description, offer.schema["required"]) == ("math", "Do arithmetic.", ["task"])
    (told,) = [turn.text for turn in model.requests[1].turns if turn.role == "tool"]
    assert told == f"done (from agent:{children[0].id}): Four."


async def test_typed_answer_of_a_sub_agent_is_json(target: str) -> None:
    helper = Agent("helper", model=RecordingModel([calls(("final_answer", {"answer": {"x": 3}}))]), output=Point)
    model = RecordingModel([calls(("helper", {"task": "point"})), "Ok."])
    agent = Agent("asks", model=model, tools=[helper.as_tool()])
    await agent.run("Point.", store=target)
    (told,) = [turn.text for turn in model.requests[1].turns if turn.role == "tool"]
    assert told.endswith(': {"x":3}')


async def test_cost_covers_sub_agents_of_sub_agents(target: str) -> None:
    def spend(turn: dict[str, object]) -> dict[str, object]:
        return turn | {"usage": {"tokens_in": 1, "tokens_out": 2, "cost_micros": 1_000_000}}

    third = Agent("third", model=ScriptedModel([spend({"text": "c"})]), tools=[])
    script = [spend(calls(("third", {"task": "c"}))), spend({"text": "b"})]
    second = Agent("second", model=ScriptedModel(script), tools=[third.as_tool()])
    script = [spend(calls(("second", {"task": "b"}))), spend({"text": "a"})]
    first = Agent("first", model=ScriptedModel(script), tools=[second.as_tool()])
    result = await first.run("a", store=target)
    assert (result.output, result.cost, result.tokens_in, result.tokens_out) == ("a", 5.0, 5, 10)


async def test_failed_sub_agent_is_reported_to_the_model(target: str) -> None:
    helper = Agent("helper", model=ScriptedModel(lambda _: 1 / 0), tools=[])  # type: ignore[arg-type,return-value]
    model = RecordingModel([calls(("helper", {"task": "x"})), "It failed."])
    await Agent("asks", model=model, tools=[helper.as_tool()]).run("x", store=target)
    (told,) = [turn.text for turn in model.requests[1].turns if turn.role == "tool"]
    assert told.startswith("failed (from agent:")
    assert "ZeroDivisionError" in told


async def test_cancelled_parent_cancels_its_sub_agent(target: str) -> None:
    helper = Agent("helper", model=ScriptedModel([calls(("deploy", {})), "Done."]), tools=[])

    @helper.tool(gate=Gate("deploys"))
    def deploy() -> str:
        """Deploy it."""
        return "ok"

    agent = Agent("asks", model=ScriptedModel([calls(("helper", {"task": "x"})), "Done."]), tools=[helper.as_tool()])
    async with open_runtime(target) as runtime:
        with pytest.raises(SessionWaiting):
            await agent.run("x", id="parent", runtime=runtime)
        await runtime.cancel("parent")
        with pytest.raises(SessionFailed, match="cancelled"):
            await agent.run("x", id="parent", runtime=runtime)
        assert {one.status async for one in runtime.sessions()} == {"cancelled"}


@pytest.mark.slow
@pytest.mark.databases("sqlite")
async def test_kill_between_any_two_commits_does_not_repeat_the_sub_agent(tmp_path: Path) -> None:
    finished = 0
    for commits in kill_points(30, every=3):
        target, log = tmp_path / f"{commits}.db", tmp_path / f"{commits}.log"
        command = [sys.executable, "-m", "tests.agent.support.sub_agent", str(target), str(commits), str(log)]
        ended = subprocess.run(command, timeout=180, check=False, capture_output=True)
        if ended.returncode == 0:
            finished = commits
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        command[4] = "0"
        again = subprocess.run(command, timeout=180, check=False, capture_output=True, text=True)
        assert again.stdout == "It is posted. 4.0\n", (commits, again.stderr)
        assert len(log.read_text().splitlines()) == 1, commits
        async with open_runtime(str(target)) as runtime:
            assert len([one async for one in runtime.sessions()]) == 2, commits
    assert finished > 10
