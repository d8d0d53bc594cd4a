"""Agents whose first answer does not end by itself: a slow stream, and a provider that asks for a delay."""

import asyncio
from collections.abc import Awaitable, Callable

from perdure import Agent
from perdure.agent.model import OnText, Reply, Request, ToolCall
from perdure.errors import ModelError

# Neither the command nor its child ends at SIGTERM; the child writes to `mark` for as long as it lives.
STUBBORN = "trap '' TERM; (trap '' TERM; while :; do echo x >> mark; sleep 0.02; done) & while :; do sleep 1; done"


class FirstAnswer:
    """Begins with `first`; every later answer is a short text."""

    name = "first-answer"

    def __init__(self, first: Callable[[OnText], Awaitable[Reply]]) -> None:
        self._first = first

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        if any(turn.text == "continue" for turn in request.turns):
            return Reply("I continue.")
        return await self._first(on_text)


async def _stream(on_text: OnText) -> Reply:
    number = 0
    while True:
        on_text(f"word-{number} ")
        number += 1
        await asyncio.sleep(0.05)


async def _delay(_: OnText) -> Reply:
    raise ModelError("Too many requests.", retry_after=25)


async def _long_delay(_: OnText) -> Reply:
    raise ModelError("Too many requests.", retry_after=3000)


async def _command(_: OnText) -> Reply:
    return Reply("I run it.", (ToolCall("c", "run_command", {"command": STUBBORN}),), stop="calls")


streaming = Agent("streaming", model=FirstAnswer(_stream), tools=[], policy=None)
delayed = Agent("delayed", model=FirstAnswer(_delay), tools=[], policy=None)
long_delayed = Agent("long_delayed", model=FirstAnswer(_long_delay), tools=[], policy=None)
commanding = Agent("commanding", model=FirstAnswer(_command), tools=["run_command"], policy=None, unsandboxed=True)
