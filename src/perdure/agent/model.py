"""The contract of a model: what an agent sends and what it gets back, the same for every provider.

A model call changes nothing outside, so it is a `pure` effect: its answer is recorded with the transcript in one
commit, and a recorded answer is never paid for again. A model does not retry. It raises `ModelError`, which says
whether a retry can help and after how long, and the agent decides.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Literal, Protocol

import msgspec

from perdure.errors import ConfigError

PROVIDERS = ("anthropic", "openai", "scripted")
FAMILIES = {"claude": "anthropic", "gpt": "openai"}  # how the names of a provider's models begin
USE = "Use `anthropic:NAME`, `openai:NAME` or `scripted:FILE.json`."
OnText = Callable[[str], None]  # receives each piece of text as it streams in; the record does not depend on it


class Usage(msgspec.Struct, frozen=True):
    """The usage of a call: tokens, and its price in millionths of a dollar (0 and not `priced` if that is unknown)."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost_micros: int = 0
    priced: bool = True


class ToolCall(msgspec.Struct, frozen=True):
    """A tool call that a model requests. `arguments` is a mapping, or the raw text if that was not a JSON object.

    `secret` is the reference of a known secret that was in the arguments, and was replaced: such a call is refused.
    """

    id: str
    name: str
    arguments: dict[str, Any] | str
    secret: str | None = None


class TurnFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """An image or a document of a user turn. Without `data` it is only mentioned in the text."""

    name: str
    media_type: str
    digest: str
    data: bytes = b""


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of the conversation that a model is sent.

    A `user` turn has text and may have files. An `assistant` turn has text, calls, or both, and may have `extra`: data
    that its provider expects back unchanged. A `tool` turn answers one call of the assistant turn before it: `call` is
    the call's id, and `failed` means that it did not do what was asked. All calls are answered, in order, before the
    next turn.
    """

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call: str = ""
    failed: bool = False
    extra: Any = None
    files: tuple[TurnFile, ...] = ()


class Offer(msgspec.Struct, frozen=True):
    """A tool as a model sees it. `schema` is the JSON Schema of its arguments, which are an object."""

    name: str
    description: str
    schema: dict[str, Any]


class Request(msgspec.Struct, frozen=True):
    """A request to a model. `number` counts the replies that this session has had so far."""

    instructions: str
    turns: tuple[Turn, ...]
    tools: tuple[Offer, ...] = ()
    number: int = 0
    max_tokens: int = 8192


class Reply(msgspec.Struct, frozen=True):
    """A model's answer. `stop` says why it stopped: done, tool calls, out of tokens, or refused."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop: Literal["end", "calls", "length", "refused"] = "end"
    model: str = ""
    extra: Any = None


class PartialReply:
    """An `OnText` that keeps what was received of an answer. A model that is cancelled sets `usage`, if it knows it."""

    def __init__(self, publish: OnText) -> None:
        self._publish = publish
        self._pieces: list[str] = []
        self.usage = Usage()

    def __call__(self, text: str) -> None:
        if isinstance(text, str):  # a user's own model may pass something else
            self._pieces.append(text)
        self._publish(text)

    @property
    def text(self) -> str:
        return "".join(self._pieces)


class Model(Protocol):
    """A model. `name` is how it is recorded, such as `anthropic:claude-…`."""

    @property
    def name(self) -> str: ...

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        """Answer the request, or raise `ModelError`."""


Model.__module__ = "perdure"  # inside the class it would be a member of the protocol


def provider_of(name: str) -> str:
    """The first part of a model's name, such as `anthropic`."""
    return name.partition(":")[0]


def get_model(name: str, *, base_url: str | None = None) -> Model:
    """The model that a name such as `anthropic:claude-sonnet-5-5` or `scripted:plan.json` stands for."""
    kind, _, rest = name.partition(":")
    if kind == "scripted" and rest:
        from perdure.agent.models.scripted import scripted_file

        return scripted_file(rest)
    if kind == "anthropic" and rest:
        from perdure.agent.models.anthropic import Anthropic

        return Anthropic(rest, base_url=base_url)
    if kind == "openai" and rest:
        from perdure.agent.models.openai import OpenAI

        return OpenAI(rest, base_url=base_url)
    raise ConfigError(f"There is no model {name!r}.", hint=f"{_meant(name)}{USE}")


def _meant(name: str) -> str:
    """A guess at what was meant, for the hint: a mistyped provider, or a name without one."""
    kind, colon, rest = name.partition(":")
    family = next((provider for begin, provider in FAMILIES.items() if kind.startswith(begin)), None)
    near = get_close_matches(kind, PROVIDERS, n=1) if colon else [family] if family else []
    return f"Did you mean {near[0]}:{rest if colon else name}? " if near and (rest or not colon) else ""
