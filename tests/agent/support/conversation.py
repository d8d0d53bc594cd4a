"""An agent, its scripted model, and what the model was shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import perdure
from perdure import Agent
from perdure.agent.model import OnText, Reply, Request, Turn
from perdure.runtime.queries import SessionView
from perdure.testing import ScriptedModel

Script = Iterable[Any]


class RecordingModel:
    """A scripted model that records its requests."""

    def __init__(self, script: Script) -> None:
        self._script = ScriptedModel(list(script))
        self.requests: list[Request] = []

    @property
    def name(self) -> str:
        return self._script.name

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        self.requests.append(request)
        return await self._script.reply(request, on_text)


class Conversation:
    """One agent on one store, in as many runtimes as a test wants."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.model = RecordingModel([])
        self.agent: Agent | None = None

    def declare(self, script: Script, tools: Iterable[Any] = (), **more: Any) -> Agent:
        """Declare the agent; `model` takes the place of the scripted one."""
        self.model = RecordingModel(script)
        given = {"policy": None, "model": self.model} | more
        self.agent = Agent("tested", tools=list(tools), **given)
        return self.agent

    async def start(self, runtime: perdure.Runtime, prompt: str = "begin", **more: Any) -> SessionView:
        assert self.agent is not None
        once = bool(more.pop("once", False))
        session = await runtime.start(self.agent.bind(prompt, once), id="talk", **more)
        return await runtime.run(session.id)

    def turns_shown(self, nth: int = -1) -> list[Turn]:
        """The turns that the model was shown in the nth request."""
        return list(self.model.requests[nth].turns)

    def tool_results(self, nth: int = -1) -> list[str]:
        """The tool results that the model was shown in the nth request."""
        return [turn.text for turn in self.turns_shown(nth) if turn.role == "tool"]


def calls(*named: tuple[str, Any], text: str = "") -> dict[str, Any]:
    """A turn of a script that calls tools."""
    return {"text": text, "calls": [{"name": name, "arguments": arguments} for name, arguments in named]}


async def lines(runtime: perdure.Runtime, name: str = "talk") -> list[dict[str, Any]]:
    """The recorded transcript."""
    return [event.body async for event in runtime.events(name) if event.kind == "message"]
