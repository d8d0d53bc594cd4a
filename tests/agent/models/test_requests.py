"""The request that is really sent, and the rules of each provider for a transcript."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.model import Offer, Request, ToolCall, Turn, get_model
from perdure.agent.models import anthropic, openai
from perdure.agent.models.turns import UNANSWERED
from perdure.errors import ConfigError
from tests.agent.models.conftest import Provider
from tests.agent.support.raw_server import STREAM, RawServer, events, speech

Message = dict[str, Any]
LOOK = Offer("look", "Look at a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
CALLS = (ToolCall("c1", "look", {"path": "a"}), ToolCall("c2", "look", "{broken"))
TALK = Request(
    "Be brief.",
    (
        Turn("user", text="Hello."),
        Turn("user", text="Are you there?"),
        Turn("assistant", text="Let me look.", calls=CALLS),
        Turn("tool", text="a file", call="c1"),
        Turn("tool", text="not JSON", call="c2", failed=True),
        Turn("user", text="And?"),
    ),
    (LOOK,),
    max_tokens=77,
)
CACHED = {"cache_control": {"type": "ephemeral"}}
ANTHROPIC_BODY = {
    "model": "claude-sonnet-5",
    "max_tokens": 77,
    "stream": True,
    "system": [{"type": "text", "text": "Be brief."} | CACHED],
    "tools": [{"name": "look", "description": LOOK.description, "input_schema": LOOK.schema}],
    "messages": [
        {
            "role": "user",
            "content": [{"type": "text", "text": "Hello."}, {"type": "text", "text": "Are you there?"}],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"path": "a"}},
                {"type": "tool_use", "id": "c2", "name": "look", "input": {"not_json": "{broken"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "a file"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "not JSON", "is_error": True},
                {"type": "text", "text": "And?"} | CACHED,
            ],
        },
    ],
}
OPENAI_BODY = {
    "model": "gpt-4.1",
    "max_tokens": 77,
    "stream": True,
    "stream_options": {"include_usage": True},
    "tools": [
        {
            "type": "function",
            "function": {"name": "look", "description": LOOK.description, "parameters": LOOK.schema},
        }
    ],
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello.\n\nAre you there?"},
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"path": "a"}'}},
                {"id": "c2", "type": "function", "function": {"name": "look", "arguments": '{"not_json": "{broken"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a file"},
        {"role": "tool", "tool_call_id": "c2", "content": "This call failed. not JSON"},
        {"role": "user", "content": "And?"},
    ],
}


async def test_the_request_has_the_format_of_each_provider(provider: Provider) -> None:
    await provider.model().reply(TALK, lambda piece: None)
    assert provider.sent == [{"anthropic": ANTHROPIC_BODY, "openai": OPENAI_BODY}[provider.format]]


@pytest.mark.parametrize("key", [None, "a-key"])
async def test_the_key_is_sent_and_own_servers_need_none(
    provider: Provider, raw: RawServer, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key:
        monkeypatch.setenv(f"{provider.format.upper()}_API_KEY", key)
    raw.says = STREAM + events(provider.format, speech(provider.format, "Yes."))
    await provider.model(base_url=raw.url).reply(TALK, lambda piece: None)
    rows = raw.heads[0].lower().split("\r\n")
    assert f"authorization: bearer {key or 'none'}" in rows
    assert provider.format == "openai" or f"x-api-key: {key or 'none'}" in rows


async def test_the_address_may_come_from_the_environment(
    provider: Provider, raw: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{provider.format.upper()}_BASE_URL", raw.url)
    raw.says = STREAM + events(provider.format, speech(provider.format, "Yes."))
    model = get_model(f"{provider.format}:some-model")
    assert (await model.reply(TALK, lambda piece: None)).text == "Yes."


async def test_broken_characters_are_not_sent(provider: Provider) -> None:
    turns = (Turn("user", text="a\ud800b"), Turn("assistant", calls=CALLS[:1]), Turn("tool", text="\udfff", call="c1"))
    await provider.model().reply(Request("\ud800", turns), lambda piece: None)
    assert json.dumps(provider.sent).count("\\ufffd") == 3


def test_the_token_limit_has_the_name_that_the_server_expects() -> None:
    for model, base_url, name in (
        ("gpt-4.1", None, "max_completion_tokens"),
        ("gpt-4.1", "http://localhost:8080/v1", "max_tokens"),
        ("gpt-5-mini", "http://localhost:8080/v1", "max_completion_tokens"),
    ):
        assert openai.payload_for(TALK, model, base_url)[name] == 77


def test_tools_that_were_called_are_still_named_when_none_are_offered() -> None:
    payload = anthropic.payload_for(Request("", TALK.turns), "m")
    assert [tool["name"] for tool in payload["tools"]] == ["look"]
    assert payload["tool_choice"] == {"type": "none"}
    assert "tools" not in anthropic.payload_for(Request("", TALK.turns[:1]), "m")


async def test_two_tools_with_the_same_wire_name_are_refused(provider: Provider) -> None:
    offers = (Offer("a.b", "", {}), Offer("a_b", "", {}))
    with pytest.raises(ConfigError, match=r"a\.b and a_b"):
        await provider.model().reply(Request("", TALK.turns, offers), lambda piece: None)


texts = st.one_of(st.sampled_from(["", " \n", "yes"]), st.text(max_size=8))
names = st.one_of(st.sampled_from(["look", "a.b", "", "x" * 300]), st.text(max_size=8))
arguments = st.one_of(st.dictionaries(st.text(max_size=3), st.integers(), max_size=2), st.text(max_size=8))
thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
extras = st.one_of(
    st.none(),
    st.builds(
        lambda layout: {"anthropic": "m", "blocks": layout},
        st.lists(st.one_of(st.just(thought), st.just("call"), st.integers(0, 9)), max_size=5),
    ),
)


@st.composite
def well_formed(draw: st.DrawFn) -> Request:
    """A conversation as a loop keeps it: every call answered in order, before anything else is said."""
    turns = [Turn("user", text=draw(texts.filter(str.strip)))]
    for number in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            turns.append(Turn("user", text=draw(texts.filter(str.strip))))
            continue
        calls = tuple(
            ToolCall(f"c{number}-{index}", draw(names), draw(arguments)) for index in range(draw(st.integers(0, 3)))
        )
        text = draw(texts if calls else texts.filter(str.strip))
        turns.append(Turn("assistant", text, calls, extra=draw(extras)))
        turns.extend(Turn("tool", draw(texts), call=call.id, failed=draw(st.booleans())) for call in calls)
    return Request(draw(texts), tuple(turns))


ids = st.sampled_from(["c1", "c2", "c3", "c4"])
calls = st.lists(st.builds(ToolCall, ids, names, arguments), max_size=3, unique_by=lambda call: call.id).map(tuple)
anything = st.builds(Turn, st.sampled_from(["user", "assistant", "tool"]), texts, calls, ids, st.booleans(), extras)
requests = st.one_of(well_formed(), st.builds(Request, texts, st.lists(anything, max_size=6).map(tuple)))


def check_anthropic(messages: list[Message]) -> None:
    assert messages[0]["role"] == "user"
    assert messages[-1]["role"] == "user"
    assert all(before["role"] != after["role"] for before, after in pairwise(messages))
    awaited: list[str] = []
    for message in messages:
        content = message["content"]
        kinds = [block["type"] for block in content]
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        assert content
        assert sorted(results) == sorted(awaited)
        assert kinds[: len(results)] == ["tool_result"] * len(results)
        assert all(block["text"].strip() for block in content if block["type"] == "text")
        assert all(block.get("content", "x").strip() for block in content if block["type"] == "tool_result")
        assert message["role"] == "assistant" or set(kinds) <= {"text", "tool_result"}
        assert message["role"] == "user" or set(kinds) <= {"text", "tool_use", "thinking"}
        assert kinds[-1] != "thinking"
        used = [block for block in content if block["type"] == "tool_use"]
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block[name]) for block in used for name in ("id", "name"))
        assert all(isinstance(block["input"], dict) for block in used)
        awaited = [block["id"] for block in used]
    assert awaited == []
    marked = [block for message in messages for block in message["content"] if "cache_control" in block]
    assert marked == [messages[-1]["content"][-1]]


def check_openai(messages: list[Message]) -> None:
    assert messages[-1]["role"] in ("user", "tool")
    awaited: list[str] = []
    for number, message in enumerate(messages):
        role = message["role"]
        assert role != "system" or number == 0
        if awaited or role == "tool":
            assert role == "tool"
            awaited.remove(message["tool_call_id"])
            continue
        used = message.get("tool_calls", [])
        assert used or message["content"].strip()
        assert message["content"] is None or message["content"].strip()
        assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in used)
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"]) for call in used)
        awaited = [call["id"] for call in used]
    assert awaited == []
    said = [message["role"] for message in messages if message["role"] not in ("tool", "system")]
    assert said[0] == "user"
    assert all(
        before["role"] != after["role"]
        for before, after in pairwise(messages)
        if before["role"] in ("user", "assistant")
    )


@pytest.mark.slow
@given(requests)
def test_any_transcript_obeys_the_rules_of_anthropic(request: Request) -> None:
    for model in (None, "m", "another"):
        check_anthropic(anthropic.messages_for(request, model))


@given(requests)
def test_any_transcript_obeys_the_rules_of_openai(request: Request) -> None:
    check_openai(openai.messages_for(request))


@given(well_formed())
def test_nothing_is_lost_or_added(request: Request) -> None:
    blocks = [block for message in anthropic.messages_for(request) for block in message["content"]]
    sent = "".join(block["text"] for block in blocks if block["type"] == "text")
    said = "".join(turn.text for turn in request.turns if turn.role != "tool")
    open_end = "Continue." if request.turns[-1].role == "assistant" else ""
    assert "".join(sent.split()) == "".join((said + open_end).split())
    results = [block for block in blocks if block["type"] == "tool_result"]
    answers = [turn for turn in request.turns if turn.role == "tool"]
    assert [block["tool_use_id"] for block in results] == [turn.call for turn in answers]
    assert [block.get("is_error", False) for block in results] == [turn.failed for turn in answers]
    assert UNANSWERED not in str(blocks)
