"""A session as a stream of typed events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perdure
from perdure import (
    Agent,
    ApprovalRequested,
    Gate,
    MessageAdded,
    QuestionOpened,
    Session,
    SessionFinished,
    SessionParked,
    StreamEvent,
    TextDelta,
    TextDiscarded,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
    program,
    tool,
)
from perdure.agent.model import OnText, Reply, Request
from perdure.errors import ModelError, SessionWaiting
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import RecordingModel, calls

pytestmark = pytest.mark.databases("sqlite", "postgres")


class SlowModel:
    """A model that writes one word, and the rest after the test allows it."""

    name = "slow"

    def __init__(self) -> None:
        self.begun, self.allowed = asyncio.Event(), asyncio.Event()

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        on_text("Hello ")
        self.begun.set()
        await self.allowed.wait()
        on_text("there.")
        return Reply("Hello there.")


def echo(agent: Agent[Any], **rule: Any) -> None:
    @agent.tool(**{"replay": "pure"} | rule)
    def echo(text: str) -> str:
        """Echo a text."""
        return text


def without_live_text(events: list[StreamEvent]) -> list[Any]:
    return [type(one) for one in events if not isinstance(one, TextDelta)]


async def collect(events: AsyncIterator[StreamEvent]) -> list[StreamEvent]:
    return [one async for one in events]


@pytest.mark.databases("sqlite", "memory", "files", "postgres")
async def test_stream_of_a_run_has_every_recorded_step_in_order(target: str) -> None:
    agent = Agent("streams", model=RecordingModel([calls(("echo", {"text": "x"}), text="I look."), "Done."]), tools=[])
    echo(agent)
    found = await collect(agent.stream("Go.", id="s", store=target))
    assert without_live_text(found) == [
        MessageAdded, MessageAdded, ToolCallStarted, ToolCallFinished, MessageAdded, SessionFinished
    ]  # fmt: skip
    started, finished = [one for one in found if isinstance(one, ToolCallStarted | ToolCallFinished)]
    assert isinstance(started, ToolCallStarted)
    assert isinstance(finished, ToolCallFinished)
    assert (started.name, started.arguments, started.call) == ("echo", {"text": "x"}, finished.call)
    assert (finished.status, finished.text) == ("done", "x")
    assert found[-1] == SessionFinished("s", "done", "Done.", None)
    assert msgspec.json.decode(msgspec.json.encode(found), type=list[StreamEvent]) == found


@pytest.mark.databases("sqlite", "memory", "postgres")
async def test_live_text_comes_before_its_message(target: str) -> None:
    model = SlowModel()
    agent, found = Agent("streams", model=model, tools=[]), list[StreamEvent]()
    async for one in agent.stream("Go.", store=target):
        found.append(one)
        if isinstance(one, TextDelta):
            model.allowed.set()
    pieces = [one for one in found if isinstance(one, TextDelta)]
    assert pieces[0].text == "Hello "
    assert "Hello there.".startswith("".join(one.text for one in pieces))
    assert len({one.reply for one in pieces}) == 1
    recorded = next(one for one in found if isinstance(one, MessageAdded) and one.role == "assistant")
    assert recorded.text == "Hello there."
    assert found.index(pieces[-1]) < found.index(recorded)


async def test_another_runtime_watches_the_live_text(target: str) -> None:
    model, found = SlowModel(), list[StreamEvent]()
    agent = Agent("streams", model=model, tools=[])
    async with open_runtime(target) as runtime, open_runtime(target) as watcher:
        await runtime.start(agent.bind("Go.", once=True), id="s")
        running = asyncio.ensure_future(runtime.complete("s"))
        async for one in watcher.stream("s"):
            found.append(one)
            if isinstance(one, TextDelta):
                model.allowed.set()
        await running
        assert isinstance(found[-1], SessionFinished)
        assert [one async for one in watcher.stream("s", after=(await watcher.get("s")).cursor)] == []


async def test_text_of_a_failed_attempt_is_discarded(target: str) -> None:
    class Failing:
        name = "failing"
        attempts = 0

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            self.attempts += 1
            on_text("Half an ")
            if self.attempts == 1:
                await until_seen.wait()
                raise ModelError("It broke off.", retry=True, retry_after=0.0)
            return Reply("Whole.")

    until_seen, found = asyncio.Event(), list[StreamEvent]()
    async for one in Agent("streams", model=Failing(), tools=[]).stream("Go.", store=target):
        found.append(one)
        until_seen.set() if isinstance(one, TextDelta) else None
    first = next(one for one in found if isinstance(one, TextDelta))
    assert TextDiscarded(first.session, first.reply) in found
    assert found[-1] == SessionFinished(first.session, "done", "Whole.", None)


async def test_question_answered_inside_the_loop_continues_the_stream(target: str) -> None:
    asked = calls(("ask_person", {"question": "Now?", "choices": ["yes", "no"]}))
    agent = Agent("streams", model=RecordingModel([asked, "As you wish."]), tools=["ask_person"])
    async with open_runtime(target) as runtime:
        with pytest.raises(SessionWaiting):
            await collect(agent.stream("Go.", id="unanswered", runtime=runtime))
        found = list[StreamEvent]()
        async for one in agent.stream("Go.", id="answered", runtime=runtime):
            found.append(one)
            if isinstance(one, QuestionOpened):
                assert (one.question, one.choices) == ("Now?", ("yes", "no"))
                await runtime.answer(one.wait, "yes")
        assert isinstance(found[-1], SessionFinished)


async def test_approval_given_inside_the_loop_continues_the_stream(target: str) -> None:
    agent = Agent("streams", model=RecordingModel([calls(("echo", {"text": "x"})), "Done."]), tools=[])
    echo(agent, replay="idempotent", gate=Gate("echoes"))
    found = list[StreamEvent]()
    async with open_runtime(target) as runtime:
        async for one in agent.stream("Go.", runtime=runtime):
            found.append(one)
            if isinstance(one, ApprovalRequested):
                assert (one.tool, one.arguments, one.gate) == ("echo", {"text": "x"}, "echoes")
                await runtime.approve(one.approval, by="ada", because="fine")
    assert [one.status for one in found if isinstance(one, ToolCallFinished)] == ["done"]
    assert isinstance(found[-1], SessionFinished)


async def test_reader_that_leaves_early_leaves_the_session_and_no_task(target: str) -> None:
    acts = list[str]()
    agent = Agent("streams", model=RecordingModel([calls(("act", {})), "Done."]), tools=[])

    @agent.tool
    def act() -> str:
        """Act."""
        acts.append("act")
        return "acted"

    before = asyncio.all_tasks()
    async with aclosing(agent.stream("Go.", id="s", store=target)) as events:
        async for one in events:
            if isinstance(one, ToolCallStarted):
                break
    assert asyncio.all_tasks() == before
    async with open_runtime(target) as runtime:
        assert (await runtime.get("s")).status in ("ready", "done")
        assert (await agent.run("Go.", id="s", runtime=runtime)).output == "Done."
    assert acts == ["act"]


async def test_abandoned_stream_ends_its_run(target: str) -> None:
    model = SlowModel()
    agent = Agent("streams", model=model, tools=[])
    async with open_runtime(target) as runtime:
        async for one in agent.stream("Go.", id="s", runtime=runtime):
            if isinstance(one, TextDelta):
                break  # without `aclosing`: the event loop closes it
        async with asyncio.timeout(60):
            while (await runtime.get("s")).status == "running":
                await asyncio.sleep(0.01)
        model.allowed.set()
        assert (await agent.run("Go.", id="s", runtime=runtime)).output == "Hello there."


async def test_stream_of_a_program_has_its_effects(target: str) -> None:
    @tool(replay="idempotent")
    def post(body: str) -> dict[str, str]:
        return {"posted": body}

    @program
    async def posts(s: Session) -> str:
        await s.do(post, body="x")
        return str(await s.ask("More?"))

    found = list[StreamEvent]()
    async with open_runtime(target) as runtime:
        await runtime.start(posts.bind(), id="p")
        await runtime.run("p")
        async for one in runtime.stream("p"):
            found.append(one)
            if isinstance(one, SessionParked):
                assert one.kinds == ("input",)
                await runtime.answer(one.waits[0], "no")
                await runtime.run("p")
    assert [type(one) for one in found] == [
        ToolCallStarted, ToolCallFinished, QuestionOpened, SessionParked, SessionFinished
    ]  # fmt: skip
    assert isinstance(found[1], ToolCallFinished)
    assert (found[1].name, found[1].text) == ("post", '{"posted":"x"}')


@pytest.mark.databases("sqlite")
async def test_output_of_a_running_command_is_streamed(target: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    command = "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo ended"
    model = RecordingModel([calls(("run_command", {"command": command})), "Done."])
    agent = Agent("streams", model=model, tools=["run_command"], policy=None, unsandboxed=True)
    found = list[StreamEvent]()
    async with aclosing(agent.stream("Go.", store=target, repository=folder)) as events:
        async for one in events:
            found.append(one)
            if isinstance(one, ToolOutput):
                (folder / "go").touch()
    shown = [one for one in found if isinstance(one, ToolOutput)]
    assert shown[0].lines == ("begun",)
    assert [one.call for one in found if isinstance(one, ToolCallFinished)] == [shown[0].call]


async def test_stream_of_an_unknown_session_is_an_error(target: str) -> None:
    async with open_runtime(target) as runtime:
        with pytest.raises(perdure.NotFound):
            await collect(runtime.stream("nothing"))
