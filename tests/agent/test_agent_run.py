"""One answer of an agent: `agent.run`, `@agent.tool`, and typed answers."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import msgspec
import pydantic
import pytest

import perdure
from perdure import Agent, Gate, tool
from perdure.agent.output import final_answer
from perdure.errors import ConfigError, Conflict, SessionFailed, SessionWaiting
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, RecordingModel, calls, lines
from tests.agent.support.typed_agent import Review

pytestmark = pytest.mark.databases("sqlite", "postgres")


class Point(msgspec.Struct, frozen=True):
    x: int
    y: int = 0


class Ticket(pydantic.BaseModel):
    title: str
    priority: int = 3


@dataclasses.dataclass
class Verdict:
    ok: bool
    notes: list[str]


async def test_run_returns_the_answer_with_its_session_and_cost(target: str) -> None:
    usage = {"tokens_in": 10, "tokens_out": 5, "cost_micros": 2_500_000}
    agent = Agent("one", model=RecordingModel([{"text": "Hello.", "usage": usage}]), tools=[])
    result = await agent.run("Say hello.", id="hello", store=target)
    assert result == perdure.AgentResult("Hello.", "hello", 2.5, 10, 5)


async def test_same_id_returns_the_recorded_answer_without_a_model_call(target: str) -> None:
    model = RecordingModel(["First.", "Second."])
    agent = Agent("one", model=model, tools=[])
    first = await agent.run("Go.", id="once", store=target)
    async with open_runtime(target) as runtime:
        assert await agent.run("Go.", id="once", runtime=runtime) == first
        with pytest.raises(Conflict):
            await agent.run("Go elsewhere.", id="once", runtime=runtime)
        assert (await runtime.get("once")).status == "done"  # the runtime is still open
    assert len(model.requests) == 1


async def test_run_refuses_a_store_beside_a_runtime(target: str) -> None:
    agent = Agent("one", model=RecordingModel([]), tools=[])
    async with open_runtime(target) as runtime:
        with pytest.raises(ConfigError, match="A store and a runtime are given"):
            await agent.run("Go.", store=target, runtime=runtime)


async def test_run_waits_for_an_approval_and_continues_after_it(target: str) -> None:
    model = RecordingModel([calls(("deploy", {})), "Deployed."])
    agent = Agent("one", model=model, tools=[])

    @agent.tool(replay="idempotent", gate=Gate("deploys"))
    def deploy() -> str:
        """Deploy it."""
        return "ok"

    async with open_runtime(target) as runtime:
        with pytest.raises(SessionWaiting) as waiting:
            await agent.run("Deploy.", id="deploy", runtime=runtime)
        (asked,) = waiting.value.waits
        await runtime.approve(asked.id, by="ada", because="tested")
        assert (await agent.run("Deploy.", id="deploy", runtime=runtime)).output == "Deployed."


async def test_agent_tool_is_registered_and_offered_to_its_agent_only(target: str) -> None:
    model, other = RecordingModel([calls(("count", {"text": "abc"})), "Three."]), RecordingModel(["Nothing."])
    agent, second = Agent("one", model=model, tools=[]), Agent("two", model=other, tools=[])

    @agent.tool
    def count(text: str) -> int:
        """Count characters."""
        return len(text)

    assert count("ab") == 2
    assert count.replay == "escalate"
    await agent.run("Count.", store=target)
    await second.run("Count.", store=target)
    assert [offer.name for offer in model.requests[0].tools] == ["count"]
    assert other.requests[0].tools == ()
    assert [turn.text for turn in model.requests[1].turns if turn.role == "tool"] == ["done: 3"]


def test_agent_tool_that_is_declared_again_replaces_the_first() -> None:
    agent = Agent("one", model=RecordingModel([]), tools=[])
    for _ in range(2):

        @agent.tool
        def count(text: str) -> int:
            """Count characters."""
            return len(text)

    assert [one.name for one in agent.tools if not isinstance(one, str)] == ["count"]
    agent.settings({})


@pytest.mark.parametrize(
    ("output", "given", "expected"),
    [
        (Point, {"x": 1}, Point(1)),
        (Ticket, {"title": "x"}, Ticket(title="x")),
        (Verdict, {"ok": True, "notes": ["a"]}, Verdict(ok=True, notes=["a"])),
        (Literal["yes", "no"], "no", "no"),
        (list[Point], [{"x": 1, "y": 2}], [Point(1, 2)]),
        (int | None, None, None),
    ],
    ids=["struct", "pydantic", "dataclass", "literal", "list", "null"],
)
@pytest.mark.databases("sqlite")
async def test_typed_answer_is_returned_as_its_type(target: str, output: Any, given: Any, expected: Any) -> None:
    model = RecordingModel([calls(("final_answer", {"answer": given}))])
    agent = Agent("typed", model=model, tools=[], output=output)
    assert (await agent.run("Go.", id="typed", store=target)).output == expected
    assert (await agent.run("Go.", id="typed", store=target)).output == expected  # decoded from the record
    assert len(model.requests) == 1
    assert model.requests[0].tools[0].schema["required"] == ["answer"]
    assert "final_answer" in model.requests[0].instructions


async def test_wrong_answer_is_returned_to_the_model_with_the_error(conversation: Conversation) -> None:
    wrong, right = calls(("final_answer", {"answer": {"x": "one"}})), calls(("final_answer", {"answer": {"x": 1}}))
    conversation.declare([wrong, right], output=Point)
    async with open_runtime(conversation.target) as runtime:
        view = await conversation.start(runtime, once=True)
        assert runtime.result_of(view) == Point(1)
        (told,) = conversation.tool_results()
        assert told.startswith("not started: final_answer: ")
        assert "Expected `int`, got `str`" in told


async def test_plain_text_is_no_typed_answer(conversation: Conversation) -> None:
    conversation.declare(["It is one.", calls(("final_answer", {"answer": {"x": 1}}))], output=Point)
    async with open_runtime(conversation.target) as runtime:
        assert runtime.result_of(await conversation.start(runtime, once=True)) == Point(1)
        assert conversation.turns_shown()[-1].text.startswith("[Your answer was not delivered")


async def test_typed_answer_must_be_called_alone(conversation: Conversation) -> None:
    @tool(replay="pure")
    def look() -> str:
        """Look."""
        return "seen"

    answer = ("final_answer", {"answer": {"x": 1}})
    conversation.declare([calls(("look", {}), answer), calls(answer)], [look], output=Point)
    async with open_runtime(conversation.target) as runtime:
        assert runtime.result_of(await conversation.start(runtime, once=True)) == Point(1)
        assert conversation.tool_results() == ["done: seen", f"not started: {final_answer.NOT_ALONE}"]


@pytest.mark.parametrize("reply", ["Words.", calls(("final_answer", {"answer": 1})), calls(("final_answer", "{"))])
async def test_attempts_at_a_typed_answer_are_bounded(conversation: Conversation, reply: Any) -> None:
    conversation.declare([reply] * 20, output=Point)
    async with open_runtime(conversation.target) as runtime:
        view = await conversation.start(runtime, once=True)
        assert view.status == "failed"
        assert len(conversation.model.requests) == final_answer.MOST
        with pytest.raises(SessionFailed, match="did not deliver a valid final answer in 5 attempts"):
            runtime.result_of(view)


async def test_retried_session_has_new_attempts_at_its_answer(conversation: Conversation) -> None:
    wrong, right = calls(("final_answer", {"answer": 1})), calls(("final_answer", {"answer": {"x": 1}}))
    conversation.declare([*[wrong] * final_answer.MOST, right], output=Point)
    async with open_runtime(conversation.target) as runtime:
        assert (await conversation.start(runtime, once=True)).status == "failed"
        await runtime.retry("talk")
        assert runtime.result_of(await runtime.complete("talk")) == Point(1)


async def test_typed_agent_in_a_conversation_waits_after_its_answer(conversation: Conversation) -> None:
    answers = [calls(("final_answer", {"answer": {"x": n}})) for n in (1, 2)]
    conversation.declare(answers, output=Point)
    async with open_runtime(conversation.target) as runtime:
        assert [one.kind for one in (await conversation.start(runtime)).waits] == ["input"]
        await runtime.send("talk", "and now?")
        await runtime.run("talk")
        assert [line["output"] for line in await lines(runtime) if "output" in line] == [
            {"x": 1, "y": 0},
            {"x": 2, "y": 0},
        ]
        assert runtime.result_of(await runtime.close_session("talk")) == Point(2)


def test_type_that_cannot_be_stored_is_refused_at_the_declaration() -> None:
    class Opaque:
        pass

    with pytest.raises(ConfigError, match="typed: the result is declared as"):
        Agent("typed", model=RecordingModel([]), tools=[], output=Opaque)


@pytest.mark.parametrize("moment", ["reply", "answer", "finished"])
async def test_killed_agent_delivers_its_typed_answer_without_another_call(
    target: str, tmp_path: Path, moment: str
) -> None:
    """It is killed after the reply is recorded, after the answer is, and before the session ends."""
    command = [sys.executable, "-m", "tests.agent.support.typed_agent", target, moment, str(tmp_path / "calls")]
    killed = subprocess.run(command, timeout=180, check=False)
    assert killed.returncode == -signal.SIGKILL
    again = subprocess.run([*command[:4], "none", command[5]], timeout=180, check=False, capture_output=True, text=True)
    assert again.stdout.strip() == repr(Review(ok=True, notes=["fine"])), again.stderr
    assert (tmp_path / "calls").read_text() == "call\n"
