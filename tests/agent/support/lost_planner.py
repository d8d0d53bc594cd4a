"""An agent that plans, decides, and whose process is killed in its next call: `python -m ... TARGET`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import perdure
from perdure import Agent, tool
from perdure.agent.model import Model

PLAN = {"tasks": [{"title": "Fix it", "state": "active"}, {"title": "Test it"}]}
DECISION = {"decision": "rewrite the parser", "because": "it is short"}
SCRIPT: list[Any] = [
    {"calls": [{"name": "plan", "arguments": PLAN}, {"name": "decide", "arguments": DECISION}]},
    {"calls": [{"name": "lost_look", "arguments": {}}]},
    "Done.",
]


@tool(replay="pure")
def lost_look() -> str:
    if os.environ.get("PERDURE_TEST_KILL"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "all quiet"


def declare(model: Model) -> Agent:
    return Agent("lost", model=model, tools=["plan", "decide", lost_look], policy=None)


async def main(target: str) -> None:
    from perdure.testing import ScriptedModel

    async with perdure.open(target) as runtime:
        session = await runtime.start(declare(ScriptedModel(SCRIPT)).bind("begin"), id="talk")
        await runtime.run(session.id)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
