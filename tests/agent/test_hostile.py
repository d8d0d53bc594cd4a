"""A hostile model: whatever it says is bounded, recorded, told to it, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Call, Limits, tool
from perdure.agent.model import OnText, Reply, Request, ToolCall
from perdure.store.moves import event
from tests.agent.conftest import opened
from tests.agent.talk import Talk, calls, lines
from tests.agent.test_context import _check_well_formed

pytestmark = pytest.mark.databases("sqlite", "postgres")


class Saying:
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

    def told(self) -> list[str]:
        return [turn.text for turn in self.requests[-1].turns if turn.role == "tool"]


def count(done: list[str]) -> Any:
    @tool(replay="idempotent")
    def act(call: Call, n: int = 0) -> str:
        done.append(call.key)
        return f"did {n}"

    return act


async def run(talk: Talk, model: Saying, tools: Any, **more: Any) -> None:
    talk.declare([], tools, model=model, **more)
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        assert session.status == "waiting"
        await runtime.store.read(event.verify, session.uid)
        for request in model.requests:
            _check_well_formed(list(request.turns))


BAD_ARGUMENTS = [
    "", "null", "[1]", "{", '{"n": "seven"}', {"n": "seven"}, {"n": 2**70}, {"n": 1.5}, {"m": 1}, {"n": None},
    {"n": 1, "extra": 1}, {"\ud800": 1}, {"n": float("nan")}, {"n": {"deep": [[[[]]]]}}, "\x00", "{}" * 1000,
]  # fmt: skip


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS, ids=lambda given: repr(given)[:20])
async def test_malformed_arguments_start_nothing_and_are_told(talk: Talk, arguments: Any) -> None:
    done: list[str] = []
    model = Saying(Reply(calls=(ToolCall("c", "act", arguments),), stop="calls"))
    await run(talk, model, [count(done)])
    assert done == []
    assert model.told()[0].startswith("not started: ")


@pytest.mark.parametrize(
    "name", ["", "nothing", "act; rm -rf /", "os.system", "__class__", "x" * 10_000, "\ud800", "act\0"]
)
async def test_unknown_tools_start_nothing_and_are_told(talk: Talk, name: str) -> None:
    done: list[str] = []
    model = Saying(Reply(calls=(ToolCall("c", name, {}),), stop="calls"))
    await run(talk, model, [count(done)])
    assert done == []
    assert "there is no tool" in model.told()[0]


async def test_an_answer_of_ten_megabytes_is_cut(talk: Talk) -> None:
    model = Saying(Reply("x" * 10_000_000), Reply("short"))
    await run(talk, model, [])
    async with opened(talk.target) as runtime:
        if talk.target != "memory:":
            said = (await lines(runtime))[1]["content"]
            assert len(said) < 500_000
            assert said.endswith("9,600,000 characters of this answer were not kept …")


async def test_arguments_of_ten_megabytes_are_cut_and_start_nothing(talk: Talk) -> None:
    done: list[str] = []
    model = Saying(Reply(calls=(ToolCall("c", "act", {"n": "x" * 10_000_000}),), stop="calls"))
    await run(talk, model, [count(done)])
    assert done == []
    assert len(model.told()[0]) < 2_000


async def test_of_two_hundred_parallel_calls_only_as_many_are_made_as_may_be(talk: Talk) -> None:
    done: list[str] = []
    model = Saying(Reply(calls=tuple(ToolCall("same", "act", {"n": n}) for n in range(200)), stop="calls"))
    await run(talk, model, [count(done)])
    assert len(set(done)) == len(done) == 64
    assert model.told()[63] == "done: did 63"
    assert model.told()[64:] == ["not started: more than 64 calls were made in one message."] * 136


@pytest.mark.slow
async def test_a_loop_without_end_is_ended_by_the_limit(talk: Talk) -> None:
    done: list[str] = []
    model = Saying(*(Reply(calls=(ToolCall("c", "act", {"n": n}),), stop="calls") for n in range(1000)))
    await run(talk, model, [count(done)], limits=Limits(turns=20))
    assert len(done) == 20


async def test_text_that_is_no_text_is_replaced(talk: Talk) -> None:
    model = Saying(Reply("a\ud800b\0c"))
    await run(talk, model, [])


async def test_a_reply_with_nothing_in_it_is_an_answer(talk: Talk) -> None:
    await run(talk, Saying(Reply("")), [])


async def test_a_model_that_raises_is_an_error_and_not_a_crash(talk: Talk) -> None:
    class Raising(Saying):
        async def reply(self, request: Request, on_text: OnText) -> Reply:
            raise ValueError("surprise")

    talk.declare([], [], model=Raising())
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        assert session.waits[0].detail["why"] == "The model could not answer: hostile failed: ValueError: surprise"


async def test_a_call_for_a_hidden_argument_is_refused(talk: Talk, tmp_path: Any) -> None:
    (tmp_path / "a.txt").write_text("x")
    talk.declare(
        [calls(("edit_file", {"path": "a.txt", "old": "x", "new": "y", "before": "00", "after": "00"})), "End."],
        ["edit_file"],
    )
    async with opened(talk.target) as runtime:
        await talk.start(runtime, repository=tmp_path)
        assert talk.told() == ["not started: edit_file takes no after, before."]
        assert (tmp_path / "a.txt").read_text() == "x"
