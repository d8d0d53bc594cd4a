"""Claude, through Anthropic's own package and the streaming Messages API."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from perdure.agent.model import OnText, Reply, Request, Turn, Usage
from perdure.agent.models.access import Access
from perdure.agent.models.client import ModelClient, StreamReader
from perdure.agent.models.failures import from_event
from perdure.agent.models.prices import count, priced
from perdure.agent.models.stream import Block, Stop, corrupted, part
from perdure.agent.models.text import clean
from perdure.agent.models.turns import offers_of, well_formed, wire_id, wire_name, wire_object

STOPS: dict[str, Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
    "tool_use": "calls",
}
THINKING = ("thinking", "redacted_thinking")
PIECES = {"text_delta": "text", "input_json_delta": "partial_json", "thinking_delta": "thinking"}
PDF = "application/pdf"
CACHED = {"cache_control": {"type": "ephemeral"}}


class Anthropic(ModelClient):
    """A model of Anthropic, or of any server that uses its format at `base_url`."""

    def __init__(self, model: str, *, base_url: str | None = None, timeout: float = 600.0) -> None:
        access = Access("anthropic", "ANTHROPIC_API_KEY", base_url, "ANTHROPIC_BASE_URL")
        super().__init__(model, access, timeout)

    def _import(self) -> Any:
        import anthropic

        return anthropic

    def _client(self, sdk: Any) -> Any:
        return sdk.AsyncAnthropic

    def _error(self, sdk: Any) -> type[Exception]:
        error: type[Exception] = sdk.AnthropicError
        return error

    def _headers(self) -> dict[str, str] | None:
        """Anthropic's servers accept the key as a bearer token; many compatible servers read this header."""
        return {"x-api-key": self._access.key} if self._access.base_url else None

    def _payload(self, request: Request) -> dict[str, Any]:
        return payload_for(request, self.model)

    def _stream(self, client: Any, payload: dict[str, Any]) -> Any:
        return client.messages.with_streaming_response.create(**payload)

    def _reader(self, on_text: OnText) -> StreamReader:
        return _AnthropicStream(self.name, on_text)


def payload_for(request: Request, model: str) -> dict[str, Any]:
    """The request as it is sent. The parts that stay the same from call to call are marked to be cached."""
    payload: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens,
        "messages": messages_for(request, model),
        "stream": True,
    }
    if request.instructions.strip():
        payload["system"] = [{"type": "text", "text": clean(request.instructions)} | CACHED]
    if offers := offers_of(request):
        payload["tools"] = [
            {
                "name": wire_name(offer.name),
                "description": offer.description,
                "input_schema": {"type": "object"} | offer.schema,
            }
            for offer in offers
        ]
        if not request.tools:
            payload["tool_choice"] = {"type": "none"}
    return payload


def messages_for(request: Request, model: str | None = None) -> list[dict[str, Any]]:
    """The turns as messages: roles alternate, and results of calls come first in the message after them.

    Thinking is sent back only to the `model` that produced it.
    """
    messages: list[dict[str, Any]] = []
    for turn in well_formed(request.turns):
        role = "assistant" if turn.role == "assistant" else "user"
        blocks = _assistant(turn, model) if role == "assistant" else [*_files(turn), _user(turn)]
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"].extend(blocks)
        else:
            messages.append({"role": role, "content": blocks})
    messages[-1]["content"][-1] |= CACHED
    return messages


def _files(turn: Turn) -> Iterator[dict[str, Any]]:
    for one in turn.files:
        if one.data:
            source = {"type": "base64", "media_type": one.media_type, "data": b64encode(one.data).decode()}
            yield {"type": "document" if one.media_type == PDF else "image", "source": source}


def _user(turn: Turn) -> dict[str, Any]:
    if turn.role == "user":
        return {"type": "text", "text": clean(turn.text)}
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": wire_id(turn.call)}
    if turn.text.strip():
        block["content"] = clean(turn.text)
    if turn.failed:
        block["is_error"] = True
    return block


def _assistant(turn: Turn, model: str | None) -> list[dict[str, Any]]:
    calls = iter(
        {"type": "tool_use", "id": wire_id(call.id), "name": wire_name(call.name), "input": wire_object(call)}
        for call in turn.calls
    )
    blocks: list[dict[str, Any]] = []
    at = 0
    for piece in [*_layout(turn, model), len(turn.text), *["call"] * len(turn.calls)]:
        if isinstance(piece, dict):
            blocks.append(dict(piece))
        elif piece == "call":
            blocks.extend(islice(calls, 1))
        elif isinstance(piece, int):
            if (text := turn.text[at : at + piece]).strip():
                blocks.append({"type": "text", "text": clean(text)})
            at += piece
    while blocks[-1]["type"] in THINKING:  # a message must not end with thinking
        blocks.pop()
    return blocks


def _layout(turn: Turn, model: str | None) -> list[Any]:
    """The order of the parts of a message: blocks of thinking, lengths of text, and "call" for each call."""
    extra = turn.extra if isinstance(turn.extra, dict) else {}
    return list(extra.get("blocks", ())) if model is None or extra.get("anthropic") == model else []


class _AnthropicStream(StreamReader):
    def take(self, _name: str, event: dict[str, Any]) -> bool:
        kind = event.get("type")
        if kind == "message_start":
            message = part(self._who, event, "message", dict)
            self._usage |= message.get("usage") or {}
            self._model = str(message.get("model") or "")
        elif kind == "content_block_start":
            self._open(part(self._who, event, "index", int), part(self._who, event, "content_block", dict))
        elif kind == "content_block_delta":
            self._add(part(self._who, event, "index", int), part(self._who, event, "delta", dict))
        elif kind == "message_delta":
            self._usage |= {name: value for name, value in (event.get("usage") or {}).items() if value is not None}
            self._stop = STOPS.get(str(part(self._who, event, "delta", dict).get("stop_reason")), self._stop)
        elif kind == "message_stop":
            self.finished = True
        elif kind == "error":
            raise from_event(self._who, event)
        return self.finished or self._answer.cut

    def _open(self, at: int, content: dict[str, Any]) -> None:
        if content.get("type") == "tool_use":
            block = self._answer.open(at, Block("call", str(content.get("id") or ""), str(content.get("name") or "")))
            if content.get("input"):
                self._answer.add(block, json.dumps(content["input"]))
        elif content.get("type") == "text":
            block = self._answer.open(at, Block("text"))
            self._answer.add(block, str(content.get("text") or ""))
        else:
            block = self._answer.open(at, Block("thinking"))
            if content.get("type") in THINKING:
                block.whole = content
                self._answer.charge(len(str(content.get("data") or "")))

    def _add(self, at: int, delta: dict[str, Any]) -> None:
        if (block := self._answer.blocks.get(at)) is None:
            raise corrupted(self._who)
        if delta.get("type") == "signature_delta" and block.whole is not None:
            block.whole["signature"] = signature = part(self._who, delta, "signature", str)
            self._answer.charge(len(signature))
        elif name := PIECES.get(str(delta.get("type"))):
            self._answer.add(block, part(self._who, delta, name, str))

    def _price(self, model: str) -> Usage:
        return priced(
            model,
            fresh=count(self._usage.get("input_tokens")),
            read=count(self._usage.get("cache_read_input_tokens")),
            written=count(self._usage.get("cache_creation_input_tokens")),
            out=self._answer.tokens(count(self._usage.get("output_tokens"))),
        )

    def reply(self, request: Request, names: dict[str, str], model: str) -> Reply:
        return msgspec.structs.replace(super().reply(request, names, model), extra=self._extra(model))

    def _extra(self, model: str) -> dict[str, Any] | None:
        """The thinking and its place in the message. Thinking without a signature cannot be sent back: dropped."""
        layout: list[Any] = []
        for _, block in sorted(self._answer.blocks.items()):
            if block.kind == "text":
                layout.append(len(block.text))
            elif block.kind == "call":
                layout.append("call")
            elif block.whole is not None and (block.whole.get("signature") or block.whole.get("data")):
                thought = {"thinking": block.text} if block.whole["type"] == "thinking" else {}
                layout.append(block.whole | thought)
        return {"anthropic": model, "blocks": layout} if any(isinstance(one, dict) for one in layout) else None
