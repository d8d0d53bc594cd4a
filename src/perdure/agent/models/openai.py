"""OpenAI's models, and every server that uses its chat format, through OpenAI's own package, streaming."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any
from urllib.parse import urlsplit

from perdure.agent.model import OnText, Request, Turn, TurnFile, Usage
from perdure.agent.models.access import Access
from perdure.agent.models.client import ModelClient, StreamReader
from perdure.agent.models.failures import from_event
from perdure.agent.models.prices import count, priced
from perdure.agent.models.stream import Block, Stop, corrupted, part
from perdure.agent.models.text import clean
from perdure.agent.models.turns import well_formed, wire_id, wire_name, wire_object

STOPS: dict[str, Stop] = {
    "length": "length",
    "content_filter": "refused",
    "tool_calls": "calls",
    "function_call": "calls",
}
TEXT = -1  # the index of the text among the parts of an answer: before every call


class OpenAI(ModelClient):
    """A model of OpenAI, or of any server that uses its chat format at `base_url`."""

    def __init__(self, model: str, *, base_url: str | None = None, timeout: float = 600.0) -> None:
        super().__init__(model, Access("openai", "OPENAI_API_KEY", base_url, "OPENAI_BASE_URL"), timeout)

    def _import(self) -> Any:
        import openai

        return openai

    def _client(self, sdk: Any) -> Any:
        return sdk.AsyncOpenAI

    def _error(self, sdk: Any) -> type[Exception]:
        error: type[Exception] = sdk.OpenAIError
        return error

    def _payload(self, request: Request) -> dict[str, Any]:
        return payload_for(request, self.model, self._access.base_url)

    def _stream(self, client: Any, payload: dict[str, Any]) -> Any:
        return client.chat.completions.with_streaming_response.create(**payload)

    def _reader(self, on_text: OnText) -> StreamReader:
        return _OpenAIStream(self.name, on_text)


def payload_for(request: Request, model: str, base_url: str | None = None) -> dict[str, Any]:
    """The request as it is sent."""
    payload: dict[str, Any] = {
        "model": model,
        _limit(model, base_url): request.max_tokens,
        "messages": messages_for(request),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        payload["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": wire_name(offer.name),
                    "description": offer.description,
                    "parameters": {"type": "object"} | offer.schema,
                },
            }
            for offer in request.tools
        ]
    return payload


def _limit(model: str, base_url: str | None) -> str:
    """OpenAI has renamed the limit, and most compatible servers know only the old name."""
    host = urlsplit(base_url or "https://api.openai.com").hostname or ""
    theirs = host.endswith("openai.com") or model.startswith(("gpt-5", "o1", "o3", "o4"))
    return "max_completion_tokens" if theirs else "max_tokens"


def messages_for(request: Request) -> list[dict[str, Any]]:
    """The turns as messages: results directly after their calls, and consecutive messages of one role joined."""
    messages: list[dict[str, Any]] = []
    if request.instructions.strip():
        messages.append({"role": "system", "content": clean(request.instructions)})
    for turn in well_formed(request.turns):
        message = _message(turn)
        last = messages[-1] if messages else {}
        if turn.role != "tool" and last.get("role") == turn.role:
            messages[-1] = last | message | {"content": _joined(last["content"], message["content"])}
        else:
            messages.append(message)
    return messages


def _joined(first: Any, second: Any) -> Any:
    """The contents of two messages as one: text, or a list of parts if one of them has files."""
    if not isinstance(first, list) and not isinstance(second, list):
        return "\n\n".join(text for text in (first, second) if text)
    parts = [one if isinstance(one, list) else [{"type": "text", "text": one}] for one in (first, second) if one]
    return [part for one in parts for part in one]


def _file(one: TurnFile) -> dict[str, Any]:
    address = f"data:{one.media_type};base64,{b64encode(one.data).decode()}"
    if one.media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": address}}
    return {"type": "file", "file": {"filename": one.name, "file_data": address}}


def _message(turn: Turn) -> dict[str, Any]:
    text = clean(turn.text)
    if turn.role == "tool":
        content = f"This call failed. {text}" if turn.failed else text
        return {"role": "tool", "tool_call_id": wire_id(turn.call), "content": content}
    message: dict[str, Any] = {"role": turn.role, "content": text if text.strip() else None}
    if files := [_file(one) for one in turn.files if one.data]:
        message["content"] = [*files, {"type": "text", "text": text}]
    if turn.role == "assistant" and turn.calls:
        message["tool_calls"] = [
            {
                "id": wire_id(call.id),
                "type": "function",
                "function": {"name": wire_name(call.name), "arguments": json.dumps(wire_object(call))},
            }
            for call in turn.calls
        ]
    return message


class _OpenAIStream(StreamReader):
    def take(self, _name: str, event: dict[str, Any]) -> bool:
        if event.get("error"):
            raise from_event(self._who, event)
        self._model = str(event.get("model") or self._model)
        self._usage = part(self._who, event, "usage", dict) if event.get("usage") else self._usage
        choices = part(self._who, event, "choices", list) if event.get("choices") else []
        for choice in choices[:1]:
            if not isinstance(choice, dict):
                raise corrupted(self._who)
            self._take_delta(part(self._who, choice, "delta", dict) if choice.get("delta") else {})
            if reason := choice.get("finish_reason"):
                self.finished = True
                self._stop = "refused" if self._stop == "refused" else STOPS.get(str(reason), "end")
        return self._answer.cut or (self.finished and bool(self._usage) and not choices)

    def _take_delta(self, delta: dict[str, Any]) -> None:
        for name in ("content", "refusal"):
            if delta.get(name):
                block = self._answer.blocks.get(TEXT) or self._answer.open(TEXT, Block("text"))
                self._answer.add(block, part(self._who, delta, name, str))
                self._stop = "refused" if name == "refusal" else self._stop
        for call_delta in part(self._who, delta, "tool_calls", list) if delta.get("tool_calls") else []:
            if not isinstance(call_delta, dict):
                raise corrupted(self._who)
            if self._answer.cut:
                break
            self._take_call(call_delta)

    def _take_call(self, call_delta: dict[str, Any]) -> None:
        function = part(self._who, call_delta, "function", dict) if call_delta.get("function") else {}
        at = call_delta.get("index")
        if not isinstance(at, int) or at < 0:  # some servers do not count them
            last = max(self._answer.blocks, default=TEXT)
            at = last + 1 if call_delta.get("id") or last == TEXT else last
        block = self._answer.blocks.get(at)
        if block is None:
            block = self._answer.open(
                at, Block("call", str(call_delta.get("id") or ""), str(function.get("name") or ""))
            )
        block.id = block.id or str(call_delta.get("id") or "")
        block.name = block.name or str(function.get("name") or "")
        if function.get("arguments"):
            given = function["arguments"]
            self._answer.add(block, given if isinstance(given, str) else json.dumps(given))

    def _price(self, model: str) -> Usage:
        details = self._usage.get("prompt_tokens_details")
        put = count(self._usage.get("prompt_tokens"))
        read = min(put, count(details.get("cached_tokens"))) if isinstance(details, dict) else 0
        return priced(
            model, fresh=put - read, read=read, out=self._answer.tokens(count(self._usage.get("completion_tokens")))
        )
