"""What `agent.run` returns: the answer, the session that gave it, and what it cost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from perdure.errors import ConfigError
from perdure.runtime.queries import SessionView
from perdure.runtime.runtime import Runtime, open
from perdure.store.moves import message

T = TypeVar("T")
MICROS = 1_000_000


class AgentResult(msgspec.Struct, Generic[T], frozen=True):
    """The answer of an agent. `cost` is in dollars, and covers the sub-agents of the session too."""

    __module__ = "perdure"

    output: T
    session: str  # the id of the session
    cost: float
    tokens_in: int
    tokens_out: int


async def result_of(runtime: Runtime, view: SessionView) -> AgentResult[Any]:
    """The result of a session that has ended; raises `SessionFailed`."""
    output = runtime.result_of(view)
    used = await runtime.store.read(message.total_usage, view)
    return AgentResult(output, view.id, used.cost_micros / MICROS, used.tokens_in, used.tokens_out)


@asynccontextmanager
async def runtime_for(store: str | Path | None, runtime: Runtime | None) -> AsyncIterator[Runtime]:
    """The runtime that was given, which stays open; otherwise one over the store, which is closed at the end."""
    if runtime is None:
        async with open(store) as opened:
            yield opened
        return
    if store is not None:
        raise ConfigError("A store and a runtime are given.", hint="Give one of them.")
    yield runtime
