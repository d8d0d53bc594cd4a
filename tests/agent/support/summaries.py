"""A tool with long results, a model that writes summaries, and the state that they lead to."""

from __future__ import annotations

from typing import Any

import perdure
from perdure import tool
from perdure.agent.history.state_reader import state_of
from perdure.agent.history.transcript import State
from perdure.agent.model import OnText, Reply, Request, Usage
from perdure.errors import ModelError
from perdure.store.moves import session as sessions
from tests.agent.support.conversation import Conversation

LONG = "word " * 100


def poster() -> Any:
    @tool(replay="idempotent", name="post")
    def post(n: int) -> str:
        return f"posted {n} {LONG}"

    return post


class SummaryModel:
    """The script, and one sentence as a summary, or a failure to make one."""

    name = "scripted"

    def __init__(self, conversation: Conversation, said: list[str | ModelError], usage: Usage | None = None) -> None:
        self.conversation = conversation
        self.said = said
        self.usage = usage or Usage(0, 0, 0)

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        if request.tools:
            return await self.conversation.model.reply(request, on_text)
        said = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        if isinstance(said, ModelError):
            raise said
        return Reply(said, usage=self.usage)


async def state(runtime: perdure.Runtime, name: str = "talk") -> State:
    def read(tx: Any) -> State:
        return state_of(tx, sessions.find(tx, name))[0]

    found: State = await runtime.store.read(read)
    return found
