"""What a model is shown: bounded, well-formed whatever happened, and shortened without losing what must not be lost."""

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
from tests.agent.conftest import opened
from tests.agent.talk import Talk, calls, lines

pytestmark = pytest.mark.databases("sqlite", "postgres")

LONG = "word " * 100


class Summing:
    """A scripted model that shortens when it is asked to, or fails to."""

    name = "scripted"

    def __init__(self, talk: Talk, said: str | ModelError) -> None:
        self.talk = talk
        self.said = said
        self.shortened = 0

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        if not request.tools:
            self.shortened += 1
            if isinstance(self.said, ModelError):
                raise self.said
            return Reply(self.said)
        return await self.talk.model.reply(request, on_text)


def declare(talk: Talk, said: str | ModelError, turns: int = 8) -> Summing:
    @tool(replay="idempotent")
    def post(n: int) -> str:
        """Post something long."""
        return f"posted {n} {LONG}"

    talk.declare([calls(("post", {"n": n})) for n in range(turns)] + ["End.", "End again."], [post, "decide", "plan"])
    talk.model._script = _with_notes(talk, turns)
    model = Summing(talk, said)
    assert talk.agent is not None
    talk.agent.model = model
    talk.agent.context = 600
    return model


def _with_notes(talk: Talk, turns: int) -> Any:
    from perdure.testing import ScriptedModel

    first = calls(
        ("decide", {"decision": "post", "because": "it was asked for"}), ("plan", {"tasks": [{"title": "post all"}]})
    )
    return ScriptedModel([first, *(calls(("post", {"n": n})) for n in range(turns)), "End.", "End again."])


async def test_a_long_window_is_shortened_and_keeps_what_is_on_record(talk: Talk) -> None:
    model = declare(talk, "I posted things.")
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        assert model.shortened > 0
        first = talk.shown()[0].text
        assert "I posted things." in first
        assert "- acknowledged: post" in first
        assert "decided: post, because it was asked for" in first
        assert "[ ] post all" in first
        assert context.tokens((await _state(runtime)).lines) <= 900
        said = await lines(runtime)
        assert [line["content"] for line in said if line["role"] == "tool"][2:] == [
            f"posted {n} {LONG}" for n in range(8)
        ]


async def test_a_shortened_transcript_is_the_same_with_and_without_checkpoints(talk: Talk) -> None:
    declare(talk, "I posted things.", turns=30)
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        with_it = await _state(runtime)
        await runtime.store.write(checkpoint.delete_all())
        assert await _state(runtime) == with_it
        branch = await runtime.fork("talk")
        assert context.turns(await _state(runtime, branch.id)) == context.turns(with_it)


@pytest.mark.parametrize("said", ["", "x" * 9_000, ModelError("The model is away.", retry=False)])
async def test_a_summary_that_cannot_be_used_changes_nothing(talk: Talk, said: str | ModelError) -> None:
    model = declare(talk, said, turns=5)
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        assert model.shortened > 0
        assert (await _state(runtime)).summary is None
        assert [turn.role for turn in talk.shown()][:2] == ["user", "assistant"]
        notes = [one.body async for one in runtime.events("talk") if one.kind == "note"]
        assert notes[0]["compaction"] == "failed"


async def test_a_window_that_is_far_too_long_is_shortened_even_without_the_model(talk: Talk) -> None:
    declare(talk, ModelError("The model is away.", retry=False), turns=12)
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        assert "No summary could be made" in talk.shown()[0].text
        assert "- acknowledged: post" in talk.shown()[0].text


async def test_a_window_that_the_model_finds_too_long_is_shortened_and_asked_again(talk: Talk) -> None:
    model = declare(talk, "I posted things.", turns=4)
    assert talk.agent is not None
    talk.agent.context = 100_000
    refused: list[int] = []

    async def reply(request: Request, on_text: OnText) -> Reply:
        if request.tools and len(request.turns) > 8:
            refused.append(len(request.turns))
            raise ModelError("The prompt is too long.", retry=False, too_long=True)
        return await Summing.reply(model, request, on_text)

    model.reply = reply  # type: ignore[method-assign]
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime, once=True)
        assert (session.status, session.result) == ("done", "End.")
        assert refused


async def test_standing_orders_are_always_shown(talk: Talk) -> None:
    talk.declare(["Yes."])
    async with opened(talk.target) as runtime:
        from perdure.store.moves import fact

        session = await runtime.start(talk.agent.bind("begin"), id="talk")  # type: ignore[union-attr]
        await runtime.store.write(fact.remember(session.uid, "ada", "orders", "tests", "Always run the tests."))
        await runtime.run("talk")
        assert "- tests: Always run the tests." in talk.model.requests[0].instructions


async def test_a_tool_that_raises_notdone_is_told_as_failed_and_a_long_answer_is_cut(talk: Talk) -> None:
    @tool(replay="pure")
    def huge() -> str:
        return "x" * 100_000

    @tool(replay="pure", retry=1)
    def broken() -> str:
        raise NotDone("no")

    talk.declare([calls(("huge", {}), ("broken", {})), "End."], [huge, broken])
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        told = talk.told()
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
def test_whatever_is_on_record_the_turns_are_well_formed(bodies: list[dict[str, Any]]) -> None:
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
