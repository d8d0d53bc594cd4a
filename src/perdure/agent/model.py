"""A model: what an agent asks, and what it gets back. One small contract, whoever answers.

A model call changes nothing outside, so it is a `pure` effect: its answer is recorded with the transcript in one
commit, and a recorded answer is never paid for again. A model never retries by itself; it raises `ModelError`, says
whether a retry can help and after how long, and the ledger decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

from perdure.errors import ConfigError

Hear = Callable[[str], None]  # is given each piece of text as it streams in; nothing durable hangs on it


class Usage(msgspec.Struct, frozen=True):
    """What a call used: tokens, and its price in millionths of a dollar (0 when nobody knows it: then not `priced`)."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost_micros: int = 0
    priced: bool = True


class ToolCall(msgspec.Struct, frozen=True):
    """A model's wish to call a tool. `arguments` is a mapping, or the raw text when that was no JSON object."""

    id: str
    name: str
    arguments: dict[str, Any] | str


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of what a model is shown.

    A `user` turn has text. An `assistant` turn has text, calls, or both, and may have `extra`: what its provider wants
    back unchanged. A `tool` turn answers one call of the assistant turn before it: `call` is its id, `failed` says that
    it did not do what was asked. Every call is answered, in order, before anything else is said.
    """

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call: str = ""
    failed: bool = False
    extra: Any = None


class Offer(msgspec.Struct, frozen=True):
    """A tool as a model sees it; `schema` is the JSON Schema of its arguments, an object."""

    name: str
    description: str
    schema: dict[str, Any]


class Request(msgspec.Struct, frozen=True):
    """Everything a model is asked with. `number` counts the replies that this session has had so far."""

    instructions: str
    turns: tuple[Turn, ...]
    tools: tuple[Offer, ...] = ()
    number: int = 0
    max_tokens: int = 8192


class Reply(msgspec.Struct, frozen=True):
    """What a model answered. `stop` says why it stopped: it is done, it calls tools, or it ran out of tokens."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop: Literal["end", "calls", "length", "refused"] = "end"
    model: str = ""
    extra: Any = None


class Model(Protocol):
    """Whoever answers. `name` is how it is recorded, such as `anthropic:claude-…`."""

    @property
    def name(self) -> str: ...

    async def reply(self, request: Request, hear: Hear) -> Reply:
        """Answer; raise `ModelError` when that cannot be."""


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
    raise ConfigError(
        f"There is no model {name!r}.", hint="Say `anthropic:NAME`, `openai:NAME` or `scripted:FILE.json`."
    )
