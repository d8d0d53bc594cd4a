"""An agent's session with a long history, and its turns: one message, two model calls, one tool, one answer.

The history is written in bulk; the turns are real. `benchmarks/agent.py` measures the same turns. With compaction the
window that the model is shown is short, without it the whole history is in every request.
"""

from __future__ import annotations

import time
from itertools import takewhile
from pathlib import Path
from typing import Any

from perdure.agent.agent import Agent
from perdure.agent.history.state_reader import FINGERPRINT
from perdure.agent.model import OnText, Reply, Request, ToolCall
from perdure.domain.lease import Holder
from perdure.evaluation.payload import text
from perdure.runtime.definitions.tool import tool
from perdure.runtime.run.session_lease import acquire
from perdure.runtime.runtime import Runtime
from perdure.runtime.runtime import open as open_runtime
from perdure.store.moves import checkpoint, event, message
from perdure.store.moves import session as sessions

PAGE, REST = 1_000, 60  # lines in a transaction; events of real turns at the end of a history
LINE = 1_000  # characters of an answer
TURNS, MANY = 10, "continue for long"
WINDOW, EVERYTHING = 4_000, 1_000_000_000  # tokens


@tool(replay="idempotent", name="evaluation_note")
def note(n: int) -> str:
    """Note something."""
    return text(200, n)


class TurnModel:
    """Calls one tool, then answers; writes a summary on request."""

    name = "evaluation"

    def has_more_calls(self, request: Request) -> bool:
        """Whether the message asks for many calls, and some are left."""
        since = list(takewhile(lambda turn: turn.role != "user", reversed(request.turns)))
        asked = request.turns[-1 - len(since)].text
        return asked == MANY and sum(turn.role == "tool" for turn in since) < TURNS

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        on_text("x")
        if not request.tools:
            return Reply("It continued.")
        if request.turns[-1].role == "tool" and not self.has_more_calls(request):
            return Reply(text(200, request.number))
        return Reply("", (ToolCall("c", "evaluation_note", {"n": request.number}),), stop="calls")


AGENTS = {
    "compaction": Agent("evaluation_compacted", model=TurnModel(), tools=[note], context=WINDOW, policy=None),
    "whole": Agent("evaluation_whole", model=TurnModel(), tools=[note], context=EVERYTHING, policy=None),
}


async def build(runtime: Runtime, name: str, events: int, *, size: int = LINE, agent: str = "compaction") -> None:
    """Make a session with a history of so many events: most in bulk, the last in real turns."""
    await runtime.start(AGENTS[agent].bind("begin"), id=name)
    await runtime.run(name)
    holder = await _hold(runtime, name)
    while (left := events - (await runtime.get(name)).cursor) > 0:
        lines = [_line(number, size) for number in range(min(PAGE, left))]
        await runtime.store.write(message.append_lines(holder, lines))
    await runtime.store.write(sessions.release(holder))
    while (await runtime.get(name)).cursor < events + REST:
        await turn(runtime, name)


async def _hold(runtime: Runtime, name: str) -> Holder:
    await runtime.send(name, "hold")
    return await acquire(runtime, await runtime.get(name))


def _line(n: int, size: int) -> dict[str, Any]:
    return {"role": "user", "content": "continue"} if n % 2 == 0 else {"role": "assistant", "content": text(size, n)}


async def turn(runtime: Runtime, name: str) -> None:
    """One turn of a session, to its answer."""
    await runtime.send(name, "continue")
    await runtime.run(name)


async def resume(target: str | Path, name: str) -> float:
    """Open the store and take one turn; seconds."""
    begun = time.perf_counter()
    async with open_runtime(target) as runtime:
        await turn(runtime, name)
        return time.perf_counter() - begun


async def next_turn(target: str | Path, name: str) -> float:
    """One turn in a process that has taken one already; seconds."""
    async with open_runtime(target) as runtime:
        await turn(runtime, name)
        begun = time.perf_counter()
        await turn(runtime, name)
        return time.perf_counter() - begun


async def fork(target: str | Path, name: str) -> float:
    """Fork a session and take the first turn of the branch; seconds."""
    async with open_runtime(target) as runtime:
        begun = time.perf_counter()
        branch = await runtime.fork(name)
        await turn(runtime, branch.id)
        return time.perf_counter() - begun


async def tail(target: str | Path, name: str) -> float:
    """Read the last 20 events; seconds."""
    async with open_runtime(target) as runtime:
        uid = (await runtime.get(name)).uid
        begun = time.perf_counter()
        for _ in range(20):
            await runtime.store.read(event.last, uid, limit=20)
        return (time.perf_counter() - begun) / 20


async def checkpoint_size(runtime: Runtime, name: str) -> int:
    """The bytes of the newest checkpoint; 0 if there is none."""
    uid = (await runtime.get(name)).uid
    found = await runtime.store.read(checkpoint.latest, uid, FINGERPRINT)
    return 0 if found is None else len(found.body.encode())
