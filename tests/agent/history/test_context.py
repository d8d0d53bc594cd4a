"""The context of a model: limited, well-formed for any record, and compacted without losing what matters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import NotDone, tool
from perdure.agent.history import context
from perdure.agent.history.state_reader import state_of
from perdure.agent.history.transcript import State
from perdure.agent.model import OnText, Reply, Request, Turn
from perdure.domain.event import Event
from perdure.errors import ModelError
from perdure.store.moves import checkpoint
from perdure.store.moves import session as sessions
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls, lines

pytestmark = pytest.mark.databases("sqlite", "postgres")


LONG = "word " * 100


class SummaryModel:
    """A scripted model that shortens when it is asked to, or fails to."""

    name = "scripted"

    def __init__(self, conversation: Conversation, said: str | ModelError) -> None:
        self.conversation = conversation
        self.said = said
        self.shortened = 0

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        if not request.tools:
            self.shortened += 1
            if isinstance(self.said, ModelError):
                raise self.said
            return Reply(self.said)
        return await self.conversation.model.reply(request, on_text)


def declare(conversation: Conversation, said: str | ModelError, turns: int = 8) -> SummaryModel:
    @tool(replay="idempotent")
    def post(n: int) -> str:
        """Post something long."""
        return f"posted {n} {LONG}"

    conversation.declare(
        [calls(("post", {"n": n})) for n in range(turns)] + ["End.", "End again."], [post, "decide", "plan"]
    )
    conversation.model._script = _with_notes(conversation, turns)
    model = SummaryModel(conversation, said)
    assert conversation.agent is not None
    conversation.agent.model = model
    conversation.agent.context = 600
    return model


def _with_notes(conversation: Conversation, turns: int) -> Any:
    from perdure.testing import ScriptedModel

    first = calls(
        ("decide", {"decision": "post", "because": "it was asked for"}), ("plan", {"tasks": [{"title": "post all"}]})
    )
    return ScriptedModel([first, *(calls(("post", {"n": n})) for n in range(turns)), "End.", "End again."])


async def test_a_long_context_is_compacted_and_the_record_is_kept(conversation: Conversation) -> None:
    model = declare(conversation, "I posted things.")
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        assert model.shortened > 0
        first = conversation.turns_shown()[0].text
        assert "I posted things." in first
        assert "- acknowledged: post" in first
        assert "decided: post, because it was asked for" in first
        assert "[ ] post all" in first
        assert context.tokens((await _state(runtime)).lines) <= 900
        said = await lines(runtime)
        assert [line["content"] for line in said if line["role"] == "tool"][2:] == [
            f"posted {n} {LONG}" for n in range(8)
        ]


async def test_a_compacted_transcript_is_the_same_without_checkpoints(conversation: Conversation) -> None:
    declare(conversation, "I posted things.", turns=30)
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        with_it = await _state(runtime)
        await runtime.store.write(checkpoint.delete_all())
        assert await _state(runtime) == with_it
        branch = await runtime.fork("talk")
        assert context.turns(await _state(runtime, branch.id)) == context.turns(with_it)


@pytest.mark.parametrize("said", ["", "x" * 9_000, ModelError("The model is away.", retry=False)])
async def test_an_unusable_summary_changes_nothing(conversation: Conversation, said: str | ModelError) -> None:
    model = declare(conversation, said, turns=5)
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        assert model.shortened > 0
        assert (await _state(runtime)).summary is None
        assert [turn.role for turn in conversation.turns_shown()][:2] == ["user", "assistant"]
        notes = [one.body async for one in runtime.events("talk") if one.kind == "note"]
        assert notes[0]["compaction"] == "failed"


async def test_a_context_far_over_the_limit_is_compacted_without_the_model(conversation: Conversation) -> None:
    declare(conversation, ModelError("The model is away.", retry=False), turns=12)
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        assert "No summary could be made" in conversation.turns_shown()[0].text
        assert "- acknowledged: post" in conversation.turns_shown()[0].text


async def test_a_context_that_the_model_refuses_is_compacted_and_sent_again(conversation: Conversation) -> None:
    model = declare(conversation, "I posted things.", turns=4)
    assert conversation.agent is not None
    conversation.agent.context = 100_000
    refused: list[int] = []

    async def reply(request: Request, on_text: OnText) -> Reply:
        if request.tools and len(request.turns) > 8:
            refused.append(len(request.turns))
            raise ModelError("The prompt is too long.", retry=False, too_long=True)
        return await SummaryModel.reply(model, request, on_text)

    model.reply = reply  # type: ignore[method-assign]
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime, once=True)
        assert (session.status, session.result) == ("done", "End.")
        assert refused


async def test_instructions_are_always_in_the_context(conversation: Conversation) -> None:
    conversation.declare(["Yes."])
    async with open_runtime(conversation.target) as runtime:
        from perdure.store.moves import fact

        session = await runtime.start(conversation.agent.bind("begin"), id="talk")  # type: ignore[union-attr]
        await runtime.store.write(fact.remember(session.uid, "ada", "orders", "tests", "Always run the tests."))
        await runtime.run("talk")
        assert "- tests: Always run the tests." in conversation.model.requests[0].instructions


async def test_notdone_is_reported_as_failed_and_long_results_are_cut(conversation: Conversation) -> None:
    @tool(replay="pure")
    def huge() -> str:
        return "x" * 100_000

    @tool(replay="pure", retry=1)
    def broken() -> str:
        raise NotDone("no")

    conversation.declare([calls(("huge", {}), ("broken", {})), "End."], [huge, broken])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        told = conversation.tool_results()
        assert "68,000 characters are left out here" in told[0]
        assert len(told[0]) < 33_000
        assert told[1].startswith("failed: ")


BODIES = st.one_of(
    st.fixed_dictionaries({"role": st.just("user"), "content": st.text(max_size=5)}),
    st.fixed_dictionaries({"role": st.just("note"), "about": st.just("away"), "content": st.text(max_size=5)}),
    st.fixed_dictionaries(
        {
            "role": st.just("assistant"),
            "content": st.text(max_size=5),
            "calls": st.lists(st.just({"id": "same", "name": "t", "arguments": {}}), max_size=3),
        }
    ),
    st.fixed_dictionaries(
        {
            "role": st.just("tool"),
            "of": st.tuples(st.just("u"), st.integers(1, 12)).map(list),
            "index": st.integers(0, 3),
            "name": st.just("t"),
            "status": st.sampled_from(["done", "unknown", "failed", "not started"]),
            "content": st.text(max_size=5),
        }
    ),
)


@pytest.mark.slow
@given(st.lists(BODIES, max_size=12))
def test_turns_are_well_formed_for_any_record(bodies: list[dict[str, Any]]) -> None:
    state = State()
    for number, body in enumerate(bodies, 1):
        state.fold(Event("u", number, "message", "a", 0, None, "m", body, "s", "d", "c"))
    _check_well_formed(list(context.turns(state)))


def _check_well_formed(turns: list[Turn]) -> None:
    """Every call is answered once, in order, right after it was made; nothing else is answered; nothing is empty."""
    due: list[str] = []
    seen: set[str] = set()
    for turn in turns:
        if turn.role == "tool":
            assert due.pop(0) == turn.call
        else:
            assert due == []
            assert turn.text or turn.calls
            due = [call.id for call in turn.calls]
            assert not seen & set(due)
            seen |= set(due)
    assert due == []


async def _state(runtime: Any, name: str = "talk") -> State:
    def read(tx: Any) -> State:
        return state_of(tx, sessions.find(tx, name))[0]

    state: State = await runtime.store.read(read)
    return state


@pytest.mark.databases("memory")
async def test_the_context_is_bounded_for_many_calls(conversation: Conversation) -> None:
    @tool(replay="pure")
    def look(n: int) -> str:
        return "x" * 100_000

    conversation.declare([calls(*(("look", {"n": n}) for n in range(64))), "End."], [look])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        characters = sum(len(turn.text) for turn in conversation.turns_shown())
        assert characters // 4 <= 150_000  # the budget is 100,000 tokens, and half as much again is the last resort


@pytest.mark.databases("memory")
async def test_the_context_is_bounded_for_long_messages(conversation: Conversation) -> None:
    conversation.declare(["Hello.", "Yes."])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        await runtime.send("talk", "x" * 4_000_000)
        await runtime.run("talk")
        characters = sum(len(turn.text) for turn in conversation.turns_shown())
        assert characters // 4 <= 150_000
