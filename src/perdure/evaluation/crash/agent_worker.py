"""The process under test: an agent that a scripted model drives, with a history so long that it writes a checkpoint.

The same three effects as in `perdure_worker`, each asked for by one reply of the model. The history is written in bulk
before the agent begins, so long that the loop writes its checkpoint when effect 2 has an outcome. After `--pause
middle`, which is in the call of the model for effect 2, the commits are: the reply, the dispatch, the acknowledgment,
the result for the model, the checkpoint, and the reply that asks for effect 3.
"""

from __future__ import annotations

import argparse
import asyncio
from itertools import dropwhile

import perdure
from perdure.agent.agent import Agent
from perdure.agent.loop import CHECKPOINT_EVERY
from perdure.agent.model import OnText, Reply, Request, ToolCall
from perdure.errors import SessionWaiting
from perdure.evaluation.crash import perdure_worker, worker_arguments
from perdure.evaluation.crash.perdure_worker import SESSION
from perdure.runtime.run.session_lease import acquire
from perdure.runtime.runtime import Runtime
from perdure.store.moves import message, session

BEGIN = "Perform the effects."
EARLIER = CHECKPOINT_EVERY - 14  # lines; events of the start and of effects 1 and 2 are the rest


class EffectModel:
    """Asks for one effect after another, until each has an outcome."""

    name = "evaluation"

    def __init__(self, given: argparse.Namespace, tool: str) -> None:
        self._given, self._tool = given, tool

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        on_text("x")
        since = list(dropwhile(lambda turn: turn.text != BEGIN, request.turns))
        n = sum(turn.role == "tool" for turn in since) + 1
        if n > self._given.effects:
            return Reply("All effects have an outcome.")
        if n == 2:
            await asyncio.to_thread(worker_arguments.pause, self._given, "middle")
        return Reply("", (ToolCall(f"call-{n}", self._tool, {"n": n}),), stop="calls")


async def write_history(runtime: Runtime) -> None:
    """Earlier lines, in bulk; the last one asks for the effects."""
    view = await runtime.get(SESSION)
    if view.cursor > EARLIER:
        return
    holder = await acquire(runtime, view)
    lines = [{"role": "user", "content": f"Earlier line {number}."} for number in range(EARLIER)]
    await runtime.store.write(message.append_lines(holder, [*lines, {"role": "user", "content": BEGIN}]))
    await runtime.store.write(session.release(holder))


async def work(given: argparse.Namespace) -> list[int]:
    """Run or continue the agent; returns what a person is asked about."""
    act = perdure_worker.declare(given.ability, given.configuration, given.inflight)
    agent = Agent("crash_agent", model=EffectModel(given, act.name), tools=[act], policy=None)
    async with perdure.open(given.state, connections=2) as runtime:
        await runtime.start(agent.bind(BEGIN, once=True), id=SESSION)
        await write_history(runtime)
        if given.verdicts:
            await perdure_worker.settle(runtime, given.verdicts)
        try:
            runtime.result_of(await runtime.complete(SESSION))
        except SessionWaiting as waiting:
            return await perdure_worker.questions(runtime, waiting)
    return []


def main() -> None:
    given = worker_arguments.parse()
    worker_arguments.pause(given, "start")
    worker_arguments.end(asyncio.run(work(given)))


if __name__ == "__main__":
    main()
