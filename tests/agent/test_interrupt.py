"""An interrupt stops the model or the tools of a turn, once; then the agent waits for the next message."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Call, tool
from perdure.agent.model import OnText, PartialReply, Reply, Request, ToolCall, Usage
from perdure.errors import ModelError
from perdure.ids import decode
from perdure.runtime.run.interruption import Interruption
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls, lines
from tests.agent.support.sandbox_run import until

pytestmark = pytest.mark.databases("sqlite", "postgres")  # stores that two processes can open


class SlowModel:
    """Streams the first answer without an end; the next answers are whole."""

    name = "slow"

    def __init__(self, *pieces: str, error: ModelError | None = None) -> None:
        self.pieces = pieces
        self.error = error
        self.requests: list[Request] = []
        self.begun = asyncio.Event()
        self.closed = False

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        self.requests.append(request)
        if len(self.requests) > 1:
            return Reply("Whole.")
        for piece in self.pieces:
            on_text(piece)
        assert isinstance(on_text, PartialReply)
        on_text.usage = Usage(100, 2, 7)
        self.begun.set()
        if self.error is not None:
            raise self.error
        try:
            await asyncio.Event().wait()
        finally:
            self.closed = True
        raise AssertionError


async def begin(conversation: Conversation, runtime: perdure.Runtime, **more: Any) -> asyncio.Task[Any]:
    return asyncio.create_task(conversation.start(runtime, **more))


def notes(said: list[dict[str, Any]]) -> list[str]:
    return [one["content"] for one in said if one.get("about") == "interrupted"]


async def test_text_received_so_far_is_kept_as_a_cut_answer(conversation: Conversation) -> None:
    model = SlowModel("I will ", "begin")
    conversation.declare([], model=model)
    async with open_runtime(conversation.target) as runtime, open_runtime(conversation.target) as other:
        running = await begin(conversation, runtime)
        await model.begun.wait()
        await other.interrupt("talk", by="ada")
        view = await asyncio.wait_for(running, 120)
        assert (view.status, [(one.kind, one.detail) for one in view.waits]) == ("waiting", [("input", None)])
        assert (model.closed, view.interrupt_requested_at) == (True, None)
        said = await lines(runtime)
        assert [one["role"] for one in said] == ["user", "assistant", "note"]
        assert (said[1]["content"], said[1]["stop"], said[1].get("calls")) == ("I will begin", "cut", None)
        assert notes(said) == ["ada stopped the work here."]
        assert (view.tokens_in, view.tokens_out, view.cost_micros) == (100, 2, 7)
        [effect] = [one async for one in runtime.effects(session="talk")]
        assert (effect.state, decode(effect.result or "")["stop"]) == ("acknowledged", "cut")
        await runtime.send("talk", "continue")
        await runtime.run("talk")
        assert (await lines(runtime))[-1]["content"] == "Whole."
        assert "[ada stopped the work here.]" in [one.text for one in model.requests[1].turns]


async def test_an_answer_that_has_not_begun_leaves_no_line(conversation: Conversation) -> None:
    model = SlowModel()
    conversation.declare([], model=model)
    async with open_runtime(conversation.target) as runtime:
        running = await begin(conversation, runtime)
        await model.begun.wait()
        await runtime.interrupt("talk", by="ada")
        await asyncio.wait_for(running, 120)
        assert [one["role"] for one in await lines(runtime)] == ["user", "note"]
        [effect] = [one async for one in runtime.effects(session="talk")]
        assert (effect.state, effect.error["code"]) == ("failed", "interrupted")


@pytest.mark.parametrize("delay", [20, 600])
async def test_a_wait_for_the_next_attempt_at_the_model_ends(conversation: Conversation, delay: int) -> None:
    model = SlowModel(error=ModelError("Too many requests.", retry_after=delay))
    conversation.declare([], model=model)
    async with open_runtime(conversation.target) as runtime, open_runtime(conversation.target) as other:
        await runtime.start(conversation.agent.bind("begin"), id="talk")  # type: ignore[union-attr]
        running = asyncio.create_task(runtime.complete("talk"))
        await model.begun.wait()
        if delay > 30:  # a long delay is a durable wait
            while (await other.get("talk")).status != "waiting":
                await asyncio.sleep(0.01)
        await other.interrupt("talk", by="ada")
        with pytest.raises(perdure.SessionWaiting):
            await asyncio.wait_for(running, 120)
        view = await runtime.get("talk")
        assert ([one.kind for one in view.waits], len(model.requests)) == (["input"], 1)
        assert notes(await lines(runtime)) == ["ada stopped the work here."]


async def test_a_coroutine_is_cancelled_and_its_outcome_is_in_doubt(conversation: Conversation) -> None:
    begun, attempts = asyncio.Event(), []

    @tool(replay="idempotent", retry=3)
    async def post(n: int) -> str:
        attempts.append(n)
        begun.set()
        await asyncio.Event().wait()
        return "posted"

    conversation.declare([calls(("post", {"n": 1}), ("post", {"n": 2})), "End."], [post], parallel=1)
    async with open_runtime(conversation.target) as runtime:
        running = await begin(conversation, runtime)
        await begun.wait()
        await runtime.interrupt("talk", by="ada")
        view = await asyncio.wait_for(running, 120)
        assert sorted(one.kind for one in view.waits) == ["doubt", "input"]
        said = await lines(runtime)
        assert [(one["index"], one["status"]) for one in said if one["role"] == "tool"] == [
            (0, "unknown"),
            (1, "not started"),
        ]
        assert attempts == [1]
        [effect] = [one async for one in runtime.effects(session="talk", in_doubt=True)]
        assert "ada stopped" in (effect.doubt or "")
        await runtime.send("talk", "continue")
        await runtime.run("talk")
        assert attempts == [1]


async def test_a_pure_coroutine_is_cancelled_and_not_repeated(conversation: Conversation) -> None:
    begun, attempts = asyncio.Event(), []

    @tool(replay="pure", retry=3)
    async def look() -> str:
        attempts.append(1)
        begun.set()
        await asyncio.Event().wait()
        return "seen"

    conversation.declare([calls(("look", {})), "End."], [look])
    async with open_runtime(conversation.target) as runtime:
        running = await begin(conversation, runtime)
        await begun.wait()
        await runtime.interrupt("talk", by="ada")
        view = await asyncio.wait_for(running, 120)
        assert ([one.kind for one in view.waits], attempts) == (["input"], [1])
        assert [one["status"] for one in await lines(runtime) if one["role"] == "tool"] == ["failed"]


async def test_a_thread_ends_by_itself_and_the_next_calls_are_refused(conversation: Conversation) -> None:
    begun, release = threading.Event(), threading.Event()

    @tool(replay="escalate")
    def write(n: int) -> str:
        begun.set()
        release.wait(60)
        return f"wrote {n}"

    conversation.declare([calls(("write", {"n": 1}), ("write", {"n": 2})), "End."], [write], parallel=1)
    async with open_runtime(conversation.target) as runtime, open_runtime(conversation.target) as other:
        running = await begin(conversation, runtime)
        await asyncio.to_thread(begun.wait, 60)
        await other.interrupt("talk", by="ada")
        release.set()
        view = await asyncio.wait_for(running, 120)
        said = [one for one in await lines(runtime) if one["role"] in ("tool", "note")]
        assert [one.get("status") for one in said] == ["done", "not started", None]
        assert "ada stopped the session." in said[1]["content"]
        assert [one.kind for one in view.waits] == ["input"]


async def test_a_tool_can_stop_itself_when_it_is_interrupted(conversation: Conversation) -> None:
    begun, stop = threading.Event(), threading.Event()

    @tool(replay="escalate")
    def write(call: Call) -> str:
        call.on_stop(lambda by: stop.set())
        begun.set()
        stop.wait(60)
        return f"half, because of {call.stopped_by}"

    conversation.declare([calls(("write", {})), "End."], [write])
    async with open_runtime(conversation.target) as runtime:
        running = await begin(conversation, runtime)
        await asyncio.to_thread(begun.wait, 60)
        await runtime.interrupt("talk", by="ada")
        await asyncio.wait_for(running, 120)
        assert [one["content"] for one in await lines(runtime) if one["role"] == "tool"] == ["half, because of ada"]


async def test_calls_that_wait_for_approval_or_an_answer_are_refused(conversation: Conversation) -> None:
    begun = asyncio.Event()

    @tool(replay="pure", retry=1)
    async def look() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "seen"

    @tool(replay="escalate", gate=perdure.Gate("push"))
    def push() -> str:
        raise AssertionError

    script = [calls(("look", {}), ("push", {}), ("ask_person", {"question": "Which?"})), "End."]
    conversation.declare(script, [look, push, "ask_person"])
    async with open_runtime(conversation.target) as runtime:
        running = await begin(conversation, runtime)
        await begun.wait()
        while len((await runtime.get("talk")).waits) < 2:
            await asyncio.sleep(0.01)
        await runtime.interrupt("talk", by="ada")
        view = await asyncio.wait_for(running, 120)
        assert [(one.kind, one.ref) for one in view.waits] == [("input", None)]
        assert [one["status"] for one in await lines(runtime) if one["role"] == "tool"] == [
            "failed", "not started", "not started",
        ]  # fmt: skip
        [approval] = [one async for one in runtime.approvals(session="talk")]
        assert approval.decision == "expired"


async def test_a_sub_agent_is_cancelled_with_the_turn(conversation: Conversation) -> None:
    begun = asyncio.Event()

    class Delegating:
        name = "delegating"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            if request.turns[0].text == "a part":
                begun.set()
                await asyncio.Event().wait()
            return Reply(calls=(ToolCall("c", "delegate", {"task": "a part"}),), stop="calls")

    conversation.declare([], ["delegate"], model=Delegating())
    async with open_runtime(conversation.target) as runtime, open_runtime(conversation.target) as other:
        running = await begin(conversation, runtime)
        await begun.wait()
        await other.interrupt("talk", by="ada")
        view = await asyncio.wait_for(running, 120)
        assert [(one.kind, one.ref) for one in view.waits] == [("input", None)]
        [child] = [one async for one in runtime.sessions() if one.id != "talk"]
        assert child.status == "cancelled"
        assert [one["status"] for one in await lines(runtime) if one["role"] == "tool"] == ["failed"]


async def test_a_sub_agent_that_waits_is_cancelled_before_the_turn_ends(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Interruption, "_begin", lambda _: None)  # the watcher is too slow

    @tool
    def push() -> str:
        return "pushed"

    class Delegating:
        name = "delegating"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            if request.turns[0].text == "a part":
                return Reply(calls=(ToolCall("p", "push", {}),), stop="calls")
            return Reply(calls=(ToolCall("c", "delegate", {"task": "a part"}),), stop="calls")

    conversation.declare([], ["delegate", push], model=Delegating(), policy=lambda _: "ask")
    async with open_runtime(conversation.target) as runtime:
        view = await conversation.start(runtime)
        assert [one.kind for one in view.waits] == ["child"]
        await runtime.interrupt("talk", by="ada")
        view = await runtime.run("talk")
        [child] = [one async for one in runtime.sessions() if one.id != "talk"]
        assert (child.status, [(one.kind, one.ref) for one in view.waits]) == ("cancelled", [("input", None)])


async def test_a_session_that_runs_once_fails(conversation: Conversation) -> None:
    model = SlowModel("I will")
    conversation.declare([], model=model)
    async with open_runtime(conversation.target) as runtime:
        running = await begin(conversation, runtime, once=True)
        await model.begun.wait()
        await runtime.interrupt("talk", by="ada")
        view = await asyncio.wait_for(running, 120)
        assert (view.status, view.error["message"]) == ("failed", "ada stopped the work here.")


async def test_cancel_now_stops_the_model_and_ends_the_session(conversation: Conversation) -> None:
    model = SlowModel("I will")
    conversation.declare([], model=model)
    async with open_runtime(conversation.target) as runtime, open_runtime(conversation.target) as other:
        running = await begin(conversation, runtime)
        await model.begun.wait()
        await other.cancel("talk", by="ada", now=True)
        view = await asyncio.wait_for(running, 120)
        assert (view.status, model.closed) == ("cancelled", True)
        assert (await lines(runtime))[1]["stop"] == "cut"


async def test_a_message_sent_after_the_interrupt_is_answered(conversation: Conversation) -> None:
    model = SlowModel("I will")
    conversation.declare([], model=model)
    async with open_runtime(conversation.target) as runtime:
        running = await begin(conversation, runtime)
        await model.begun.wait()
        await runtime.send("talk", "before", by="ada", mode="steer")
        await runtime.interrupt("talk", by="ada")
        await runtime.send("talk", "after", by="ada")
        await asyncio.wait_for(running, 120)
        said = [(one["role"], one["content"]) for one in await lines(runtime)]
        assert said[2:] == [
            ("user", "before"), ("note", "ada stopped the work here."), ("user", "after"), ("assistant", "Whole."),
        ]  # fmt: skip


async def test_a_command_is_ended_with_its_children(conversation: Conversation, tmp_path: Path) -> None:
    stubborn = "trap '' TERM; (trap '' TERM; while :; do echo x >> mark; sleep 0.02; done) & echo begun > begun; wait"
    conversation.declare([calls(("run_command", {"command": stubborn})), "End."], ["run_command"])
    async with open_runtime(conversation.target) as runtime, open_runtime(conversation.target) as other:
        running = await begin(conversation, runtime, repository=str(tmp_path))
        await asyncio.to_thread(until, (tmp_path / "mark").exists)
        await other.interrupt("talk", by="ada")
        view = await asyncio.wait_for(running, 60)
        size = (tmp_path / "mark").stat().st_size
        assert [one.kind for one in view.waits] == ["input"]
        [result] = [one for one in await lines(runtime) if one["role"] == "tool"]
        assert (result["status"], result["content"]) == ("done", "Stopped: ada stopped it, and it may be partly done.")
        [effect] = [one async for one in runtime.effects(session="talk", tool="run_command")]
        assert effect.state == "acknowledged"
        await runtime.send("talk", "continue")
        await runtime.run("talk")
        assert (tmp_path / "mark").stat().st_size == size


async def test_a_command_gets_time_to_end_by_itself(conversation: Conversation, tmp_path: Path) -> None:
    polite = "trap 'echo cleaned > cleaned; exit 5' TERM; echo begun > begun; while :; do sleep 0.02; done"
    conversation.declare([calls(("run_command", {"command": polite})), "End."], ["run_command"])
    async with open_runtime(conversation.target) as runtime:
        running = await begin(conversation, runtime, repository=str(tmp_path))
        await asyncio.to_thread(until, (tmp_path / "begun").exists)
        await runtime.interrupt("talk", by="ada")
        await asyncio.wait_for(running, 60)
        assert (tmp_path / "cleaned").exists()
