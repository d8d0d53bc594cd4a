"""A hostile model: its output is limited and recorded, and nothing is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import Call, Limits, tool
from perdure.agent.model import OnText, Reply, Request, ToolCall, Usage
from perdure.store.moves import event
from tests.agent.conftest import open_runtime
from tests.agent.history.test_context import _check_well_formed
from tests.agent.support.conversation import Conversation, calls, lines
from tests.agent.support.run_limits import count_runs

pytestmark = pytest.mark.databases("sqlite", "postgres")


class FixedReply:
    """A model that says exactly this, and then that it is done."""

    name = "hostile"

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        self.requests.append(request)
        if request.number >= len(self.replies):
            return Reply("End.")
        said: Reply = self.replies[request.number]
        return said

    def tool_results(self) -> list[str]:
        return [turn.text for turn in self.requests[-1].turns if turn.role == "tool"]


def count(done: list[str]) -> Any:
    @tool(replay="idempotent")
    def act(call: Call, n: int = 0) -> str:
        done.append(call.key)
        return f"did {n}"

    return act


async def run(conversation: Conversation, model: FixedReply, tools: Any, **more: Any) -> None:
    conversation.declare([], tools, model=model, **more)
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        assert session.status == "waiting"
        await runtime.store.read(event.verify, session.uid)
        for request in model.requests:
            _check_well_formed(list(request.turns))


BAD_ARGUMENTS = [
    "", "null", "[1]", "{", '{"n": "seven"}', {"n": "seven"}, {"n": [1]}, {"n": 1.5}, {"m": 1}, {"n": None},
    {"n": 1, "extra": 1}, {"\ud800": 1}, {"n": float("nan")}, {"n": {"deep": [[[[]]]]}}, "\x00", "{}" * 1000,
]  # fmt: skip


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS, ids=lambda given: repr(given)[:20])
async def test_malformed_arguments_start_nothing_and_are_reported(conversation: Conversation, arguments: Any) -> None:
    done: list[str] = []
    model = FixedReply(Reply(calls=(ToolCall("c", "act", arguments),), stop="calls"))
    await run(conversation, model, [count(done)])
    assert done == []
    assert model.tool_results()[0].startswith("not started: ")


@pytest.mark.parametrize(
    "name", ["", "nothing", "act; rm -rf /", "os.system", "__class__", "x" * 10_000, "\ud800", "act\0"]
)
async def test_unknown_tools_start_nothing_and_are_reported(conversation: Conversation, name: str) -> None:
    done: list[str] = []
    model = FixedReply(Reply(calls=(ToolCall("c", name, {}),), stop="calls"))
    await run(conversation, model, [count(done)])
    assert done == []
    assert "there is no tool" in model.tool_results()[0]


async def test_an_answer_of_ten_megabytes_is_cut(conversation: Conversation) -> None:
    model = FixedReply(Reply("x" * 10_000_000), Reply("short"))
    await run(conversation, model, [])
    async with open_runtime(conversation.target) as runtime:
        if conversation.target != "memory:":
            said = (await lines(runtime))[1]["content"]
            assert len(said) < 500_000
            assert said.endswith("9,600,000 characters of this answer were not kept …")


async def test_arguments_of_ten_megabytes_are_cut_and_start_nothing(conversation: Conversation) -> None:
    done: list[str] = []
    model = FixedReply(Reply(calls=(ToolCall("c", "act", {"n": "x" * 10_000_000}),), stop="calls"))
    await run(conversation, model, [count(done)])
    assert done == []
    assert len(model.tool_results()[0]) < 2_000


async def test_parallel_calls_are_limited(conversation: Conversation) -> None:
    done: list[str] = []
    model = FixedReply(Reply(calls=tuple(ToolCall("same", "act", {"n": n}) for n in range(200)), stop="calls"))
    await run(conversation, model, [count(done)])
    assert len(set(done)) == len(done) == 64
    assert model.tool_results()[63] == "done: did 63"
    assert model.tool_results()[64:] == ["not started: more than 64 calls were made in one message."] * 136


@pytest.mark.slow
async def test_an_endless_loop_is_stopped_by_the_limit(conversation: Conversation) -> None:
    done: list[str] = []
    model = FixedReply(*(Reply(calls=(ToolCall("c", "act", {"n": n}),), stop="calls") for n in range(1000)))
    await run(conversation, model, [count(done)], limits=Limits(turns=20))
    assert len(done) == 20


async def test_invalid_text_is_replaced(conversation: Conversation) -> None:
    model = FixedReply(Reply("a\ud800b\0c"))
    await run(conversation, model, [])


async def test_an_empty_reply_is_an_answer(conversation: Conversation) -> None:
    await run(conversation, FixedReply(Reply("")), [])


async def test_a_model_that_raises_is_an_error_and_not_a_crash(conversation: Conversation) -> None:
    class Raising(FixedReply):
        async def reply(self, request: Request, on_text: OnText) -> Reply:
            raise ValueError("surprise")

    conversation.declare([], [], model=Raising())
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        assert session.waits[0].detail["why"] == "The model could not answer: hostile failed: ValueError: surprise"


async def test_a_call_for_a_hidden_argument_is_refused(conversation: Conversation, tmp_path: Any) -> None:
    (tmp_path / "a.txt").write_text("x")
    conversation.declare(
        [calls(("edit_file", {"path": "a.txt", "old": "x", "new": "y", "before": "00", "after": "00"})), "End."],
        ["edit_file"],
    )
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime, repository=tmp_path)
        assert conversation.tool_results() == ["not started: edit_file takes no after, before."]
        assert (tmp_path / "a.txt").read_text() == "x"


@pytest.mark.databases("memory")
@pytest.mark.parametrize("odd", ["model", "extra", "usage", "stop", "negative"])
async def test_an_odd_reply_does_not_fail_the_session(conversation: Conversation, odd: str) -> None:
    every: dict[str, dict[str, Any]] = {
        "model": {"model": "\ud800"},
        "extra": {"extra": {"signature": "\ud800"}},
        "usage": {"usage": Usage(2**70, 0, 0)},
        "stop": {"stop": "\ud800"},
        "negative": {"usage": Usage(-5, -5, -5)},
    }
    given = every[odd]

    class Odd:
        name = "odd"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            return Reply("Hello.", **given)

    conversation.declare([], model=Odd())
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        assert session.status == "waiting", session.error


@pytest.mark.databases("memory")
async def test_a_model_that_cancels_itself_is_a_model_error(conversation: Conversation) -> None:
    class Cancels:
        name = "cancels"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            raise asyncio.CancelledError

    conversation.declare([], model=Cancels())
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        assert session.status == "waiting", session.error


ODD = [
    ("read_file", {"path": "a\0b"}),
    ("read_file", {"path": 5}),
    ("read_file", {}),
    ("edit_file", {"path": ["a"]}),
    ("edit_file", {"path": "a\0b", "old": "x", "new": "y"}),
    ("write_file", {"path": "a\0b", "content": "x"}),
    ("write_file", {"path": "", "content": "x"}),
    ("run_command", {"command": 5}),
    ("run_command", {"command": "a\0b"}),
    ("run_command", {}),
    ("git_commit", {"message": "a\0b"}),
    ("git_branch", {"name": "a\0b"}),
    ("git_push", {"remote": "a\0b"}),
    ("list_files", {"path": "a\0b"}),
    ("search_files", {"pattern": "("}),
    ("search_files", {"pattern": "\0"}),
    ("fetch_url", {"url": "http://[::1"}),
    ("fetch_url", {"url": "http://a\0b"}),
    ("plan", {"tasks": [{"title": "x" * 10000}]}),
    ("remember", {"key": "\0", "value": "v"}),
    ("remember", {"key": "k" * 10000, "value": "v"}),
    ("recall", {"key": ""}),
    ("decide", {"decision": "", "because": ""}),
    ("save_artifact", {"name": "\0", "content": "x"}),
    ("ask_person", {"question": "q\0", "choices": []}),
    ("delegate", {"task": ""}),
    ("recall", {"key": "\0"}),
    ("decide", {"decision": "a\0", "because": "b\0"}),
    ("plan", {"tasks": [{"title": "\0"}]}),
]


@pytest.mark.slow
@pytest.mark.databases("memory")
@pytest.mark.parametrize("call", ODD, ids=lambda one: f"{one[0]}-{str(one[1])[:24]!r}")
async def test_odd_arguments_of_a_shipped_tool_do_not_fail_the_session(
    conversation: Conversation, call: Any, tmp_path: Path
) -> None:
    count_runs(conversation.declare([calls(call), "End."], [call[0]], unsandboxed=True))
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime, repository=tmp_path)
        assert session.status == "waiting", session.error
        if call[0] not in ("ask_person", "delegate"):
            assert conversation.tool_results(), session.waits
