"""Answers of a model, over a real connection, in both wire formats."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from perdure.agent.model import Offer, PartialReply, Request, ToolCall, Turn
from perdure.agent.models.stream import BOUND
from tests.agent.models.conftest import Provider
from tests.agent.support.raw_server import STREAM, RawServer, calling, events, speech

LOOK = Offer("look", "Look at a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
ASK = Request("Be brief.", (Turn("user", text="What is in the file?"),), (LOOK,), number=4)


def silent(piece: str) -> None:
    """Ignore live text."""


@pytest.mark.slow
async def test_text_arrives_in_pieces_and_is_returned_whole(provider: Provider) -> None:
    provider.says("Four words are here.")
    heard: list[str] = []
    reply = await provider.model().reply(ASK, heard.append)
    assert (reply.text, reply.calls, reply.stop) == ("Four words are here.", (), "end")
    assert len(heard) > 1
    assert "".join(heard) == reply.text


async def test_text_is_passed_on_before_the_answer_ends(provider: Provider, raw: RawServer) -> None:
    heard = threading.Event()
    outcome: list[bool] = []

    def conversation(line: socket.socket) -> None:
        whole = events(provider.format, speech(provider.format, "first", " last"))
        start = whole.index(b" last")
        line.sendall(STREAM + whole[: whole.rindex(b"\n\n", 0, start) + 2])
        outcome.append(heard.wait(120))
        line.sendall(whole[whole.rindex(b"\n\n", 0, start) + 2 :])

    raw.says = conversation
    reply = await provider.model(base_url=raw.url).reply(ASK, lambda piece: heard.set())
    assert outcome == [True]
    assert reply.text == "first last"


async def test_a_call_has_its_arguments(provider: Provider) -> None:
    provider.says(None, ("look", {"path": "a/ü.py", "lines": [1, 2]}))
    reply = await provider.model().reply(ASK, silent)
    (call,) = reply.calls
    assert (call.name, call.arguments, reply.stop) == ("look", {"path": "a/ü.py", "lines": [1, 2]}, "calls")
    assert call.id


async def test_calls_side_by_side_keep_their_order(provider: Provider) -> None:
    provider.says("Two files.", ("look", {"path": "a"}), ("look", {"path": "b"}), ("look", {}))
    reply = await provider.model().reply(ASK, silent)
    assert reply.text == "Two files."
    assert [call.arguments for call in reply.calls] == [{"path": "a"}, {"path": "b"}, {}]
    assert len({call.id for call in reply.calls}) == 3


async def test_usage_and_cost_are_reported(provider: Provider) -> None:
    provider.says("word " * 100)
    usage = (await provider.model().reply(ASK, silent)).usage
    put, got = {"anthropic": (2, 10), "openai": (2, 8)}[provider.format]
    assert usage.tokens_in > 0
    assert usage.tokens_out == 125
    assert (usage.cost_micros, usage.priced) == (usage.tokens_in * put + 125 * got, True)


async def test_an_unknown_price_is_not_zero(provider: Provider) -> None:
    usage = (await provider.model("some-model").reply(ASK, silent)).usage
    assert (usage.cost_micros, usage.priced) == (0, False)


async def test_a_cancelled_answer_reports_the_known_usage(provider: Provider, raw: RawServer) -> None:
    heard, over = asyncio.Event(), threading.Event()

    def conversation(line: socket.socket) -> None:
        whole = events(provider.format, speech(provider.format, "first", " last"))
        line.sendall(STREAM + whole[: whole.rindex(b"\n\n", 0, whole.index(b" last")) + 2])
        over.wait(120)

    raw.says = conversation
    received = PartialReply(lambda piece: heard.set())
    answering = asyncio.create_task(provider.model(base_url=raw.url).reply(ASK, received))
    await heard.wait()
    answering.cancel()
    await asyncio.wait([answering])
    over.set()
    assert (answering.cancelled(), received.text) == (True, "first")
    assert (received.usage.tokens_in > 0) == (provider.format == "anthropic")  # others report it at the end


async def test_cached_tokens_are_tokens_in(provider: Provider, raw: RawServer) -> None:
    said = speech(provider.format, "Yes.")
    if provider.format == "anthropic":
        said[0]["message"]["usage"] = {
            "input_tokens": 10, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 100, "output_tokens": 1,
        }  # fmt: skip
        cost = 10 * 2 + 1000 * 0.2 + 100 * 2.5 + 7 * 10
    else:
        usage = {"prompt_tokens": 1110, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 1000}}
        said.append({"choices": [], "usage": usage})
        cost = 110 * 2 + 1000 * 0.5 + 7 * 8
    raw.says = STREAM + events(provider.format, said)
    usage_told = (await provider.model(base_url=raw.url).reply(ASK, silent)).usage
    assert (usage_told.tokens_in, usage_told.tokens_out, usage_told.cost_micros) == (1110, 7, round(cost))


async def test_an_answer_cut_by_the_token_limit_is_marked(provider: Provider) -> None:
    provider.says("And then", finish="length")
    assert (await provider.model().reply(ASK, silent)).stop == "length"


async def test_malformed_arguments_are_passed_on_as_text(provider: Provider) -> None:
    provider.says(None, ("look", {"path": "a-file-with-a-long-name"}))
    provider.mock.break_tool_call("malformed_arguments")
    (call,) = (await provider.model().reply(ASK, silent)).calls
    assert call.name == "look"
    assert isinstance(call.arguments, str)
    assert call.arguments.startswith('{"path"')


@pytest.mark.slow
@pytest.mark.parametrize("text", ["[1]", '"a"', "null", '{"a": NaN}', '{"a": 1e999}', '{"a": ' * 200 + "1" + "}" * 200])
async def test_arguments_that_are_not_an_object_stay_text(provider: Provider, raw: RawServer, text: str) -> None:
    raw.says = STREAM + calling(provider.format, text)
    (call,) = (await provider.model(base_url=raw.url).reply(ASK, silent)).calls
    assert call.arguments == text


async def test_missing_arguments_are_empty_unless_the_answer_was_cut_off(provider: Provider, raw: RawServer) -> None:
    raw.says = STREAM + calling(provider.format, "")
    (call,) = (await provider.model(base_url=raw.url).reply(ASK, silent)).calls
    assert call.arguments == {}
    raw.says = STREAM + calling(provider.format, "", reason="length")
    reply = await provider.model(base_url=raw.url).reply(ASK, silent)
    assert [call.arguments for call in reply.calls] == [""]
    assert reply.stop == "length"


async def test_calls_of_a_refused_answer_are_not_made(provider: Provider, raw: RawServer) -> None:
    raw.says = STREAM + calling(provider.format, '{"path": "a"}', reason="refused")
    reply = await provider.model(base_url=raw.url).reply(ASK, silent)
    assert (reply.stop, reply.calls) == ("refused", ())


async def test_calls_without_ids_get_ids(provider: Provider, raw: RawServer) -> None:
    for id in ("", "same"):
        raw.says = STREAM + calling(provider.format, "{}", "{}", id=id)
        calls = (await provider.model(base_url=raw.url).reply(ASK, silent)).calls
        assert [call.id for call in calls] == [id or "call-4-0", "call-4-1"]


async def test_a_huge_answer_is_cut_and_reading_stops(provider: Provider, raw: RawServer) -> None:
    def conversation(line: socket.socket) -> None:
        opening = speech(provider.format, "x" * 100_000, end=False)
        line.sendall(STREAM + events(provider.format, opening))
        while True:
            line.sendall(events(provider.format, opening[-1:]))

    raw.says = conversation
    heard: list[str] = []
    reply = await provider.model(base_url=raw.url).reply(ASK, heard.append)
    assert reply.stop == "length"
    assert BOUND - 10_000 < len(reply.text) <= BOUND
    assert "".join(heard) == reply.text
    assert reply.usage.tokens_out >= BOUND // 4 - 3000
    assert raw.hung_up.wait(120)


@pytest.mark.slow
async def test_an_endless_list_of_calls_is_cut(provider: Provider, raw: RawServer) -> None:
    raw.says = STREAM + calling(provider.format, *["{}"] * 20_000)
    reply = await provider.model(base_url=raw.url).reply(ASK, silent)
    assert reply.stop == "length"
    assert 256 < len(reply.calls) < 1024


async def test_broken_characters_are_replaced(provider: Provider, raw: RawServer) -> None:
    said = events(provider.format, speech(provider.format, "a\ud83d", "\ude00b", "\ud800c", "BYTE"))
    raw.says = STREAM + said.replace(b"BYTE", b"\xff\xfed")
    heard: list[str] = []
    reply = await provider.model(base_url=raw.url).reply(ASK, heard.append)
    assert reply.text == "a\U0001f600b\ufffdc\ufffd\ufffdd"
    assert "".join(heard) == reply.text


async def test_broken_characters_in_arguments_are_replaced(provider: Provider, raw: RawServer) -> None:
    raw.says = STREAM + calling(provider.format, '{"path": "\\ud800x"}', '{"path": \ud800')
    calls = (await provider.model(base_url=raw.url).reply(ASK, silent)).calls
    assert [call.arguments for call in calls] == [{"path": "\ufffdx"}, '{"path": \ufffd']


async def test_a_tool_with_a_dot_in_its_name_can_be_called(provider: Provider) -> None:
    dotted = Request("", ASK.turns, (Offer("files.look", "Look.", {"type": "object"}),))
    provider.says(None, ("files_look", {}))
    reply = await provider.model().reply(dotted, silent)
    assert [call.name for call in reply.calls] == ["files.look"]


async def test_thinking_is_sent_back_unchanged_to_its_model(raw: RawServer) -> None:
    thinking = {"type": "thinking", "thinking": "Hm, a file.", "signature": "c2ln"}
    hidden = {"type": "redacted_thinking", "data": "aGlk"}
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    raw.says = STREAM + events("anthropic", [
        speech("anthropic", end=False)[0],
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm, "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "a file."}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "Let me look."}},
        {"type": "content_block_start", "index": 2, "content_block": hidden},
        {"type": "content_block_start", "index": 3, "content_block": call},
        *speech("anthropic")[-2:],
    ])  # fmt: skip
    heard: list[str] = []
    model = Provider("anthropic", None).model(base_url=raw.url)
    reply = await model.reply(ASK, heard.append)
    assert (reply.text, heard) == ("Let me look.", ["Let me look."])
    answered = (*ASK.turns, Turn("assistant", reply.text, reply.calls, extra=reply.extra), Turn("tool", "x", call="t1"))
    again = Request("", answered, (LOOK,), number=5)
    await model.reply(again, silent)
    await Provider("anthropic", None).model("claude-opus-4-5", base_url=raw.url).reply(again, silent)
    text = {"type": "text", "text": "Let me look."}
    assert raw.bodies[1]["messages"][1]["content"] == [thinking, text, hidden, call]
    assert raw.bodies[2]["messages"][1]["content"] == [text, call]


async def test_servers_that_do_not_count_calls_are_understood(raw: RawServer) -> None:
    def delta(**said: object) -> dict[str, object]:
        return {"choices": [{"index": 0, "delta": {"tool_calls": [said]}}]}

    raw.says = STREAM + events("openai", [
        delta(id="a", function={"name": "look", "arguments": '{"path"'}),
        delta(function={"arguments": ': "x"}'}),
        delta(id="b", function={"name": "look", "arguments": {"path": "y"}}),
        {"choices": [{"index": 0, "finish_reason": "stop"}]},
    ])  # fmt: skip
    reply = await Provider("openai", None).model(base_url=raw.url).reply(ASK, silent)
    assert reply.calls == (ToolCall("a", "look", {"path": "x"}), ToolCall("b", "look", {"path": "y"}))
    assert reply.stop == "calls"
