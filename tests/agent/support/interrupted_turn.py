"""A process that interrupts its own session in the middle of a turn, and is killed at a given fault point after that.

    python -m tests.agent.support.interrupted_turn STORE FOLDER TURN POINT

TURN is `command` or `model`. Without being killed, it prints the fault points that it reached.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path

import perdure
from perdure import Agent, faults
from perdure.agent.model import OnText, Reply, Request, ToolCall

# Neither the command nor its child ends at SIGTERM; the child writes to `mark` for as long as it lives.
STUBBORN = "trap '' TERM; (trap '' TERM; while :; do echo x >> mark; sleep 0.02; done) & while :; do sleep 1; done"


class Turn:
    """The first answer runs a command, or does not end; after "continue" there is a short answer."""

    name = "turn"

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.begun = asyncio.Event()

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        if any(turn.text == "continue" for turn in request.turns):
            return Reply("I continue.")
        if self._kind == "command":
            return Reply("I run it.", (ToolCall("c", "run_command", {"command": STUBBORN}),), stop="calls")
        on_text("I begin")
        self.begun.set()
        await asyncio.Event().wait()
        raise AssertionError


def declare(kind: str) -> tuple[Agent, Turn]:
    model = Turn(kind)
    return Agent("turning", model=model, tools=["run_command"], policy=None, unsandboxed=True), model


async def interrupt_and_die(store: str, folder: Path, kind: str, at: int) -> None:
    agent, model = declare(kind)
    reached: list[str] = []
    lock = threading.Lock()

    def count(name: str) -> None:
        with lock:
            reached.append(name)
            if len(reached) == at:
                os.kill(os.getpid(), signal.SIGKILL)

    async with perdure.open(store) as runtime:
        await runtime.start(agent.bind("begin"), id="talk", repository=folder)
        running = asyncio.create_task(runtime.run("talk"))
        while not (folder / "mark").exists() and not model.begun.is_set():
            await asyncio.sleep(0.01)
        faults.arm(count)
        await runtime.interrupt("talk", by="ada")
        await running
        faults.disarm()
    print(json.dumps(reached))


if __name__ == "__main__":
    asyncio.run(interrupt_and_die(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
