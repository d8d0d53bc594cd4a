"""The program as it was when its sessions were suspended. An older Perdure ran it to record `older_store.*.gz`.

    python older_program.py STORE

It uses nothing but the public library, so that any version can run it. Each session does an effect, and then waits for
something: an answer, an approval, three days, or a message. After that it does another effect. `tools/older_store.py`
builds the older Perdure and runs this file with it.
"""

from __future__ import annotations

import asyncio
import os
import sys

import perdure
from perdure import Call, Gate, Session, program, tool
from perdure.testing import ManualClock, SinkClient

KINDS, EACH = ("ask", "approval", "timer", "message"), 6


def post_outside(call: Call, number: int, part: str) -> str:
    """Post to the sink, where there is one."""
    if "PERDURE_SINK" in os.environ:
        SinkClient.here().post(call.key, {"number": number, "part": part})
    return f"{part}-{number}"


@tool(replay="idempotent", name="evaluation_post")
def post(call: Call, number: int, part: str) -> str:
    """Post something."""
    return post_outside(call, number, part)


@tool(replay="idempotent", name="evaluation_gated_post", gate=Gate("release", expires=None))
def gated_post(call: Call, number: int, part: str) -> str:
    """Post something that a person must approve."""
    return post_outside(call, number, part)


def read_notes(number: int) -> str:
    """What the session was asked to do."""
    return f"notes of {number}"


async def wait_for(s: Session, kind: str, number: int) -> str:
    """Wait for what the session is about; returns the answer."""
    if kind == "ask":
        return str(await s.ask("Release it?", choices=["yes", "no"]))
    if kind == "approval":
        await s.do(gated_post, number=number, part="approved")
        return "yes"
    if kind == "timer":
        await s.sleep(days=3)
        return "yes"
    return await s.receive(str)


def declare_original() -> None:
    """Declare the program as it was."""

    @program
    async def evaluation_interrupted(s: Session, kind: str, number: int) -> str:
        notes = await s.step("read", read_notes, number)
        before = await s.do(post, number=number, part="before")
        answer = await wait_for(s, kind, number)
        after = await s.do(post, number=number, part="after") if answer == "yes" else "nothing"
        return f"{notes}, {before}, {answer}, {after}"


async def record(target: str) -> None:
    """Run all sessions until they wait."""
    declare_original()
    from perdure.runtime.definitions.program import get_program

    started = get_program("evaluation_interrupted")
    async with perdure.open(target, clock=ManualClock()) as runtime:
        for number in range(EACH * len(KINDS)):
            kind = KINDS[number % len(KINDS)]
            name = f"interrupted-{number}"
            await runtime.start(started.bind(kind=kind, number=number), id=name, owner="ada")
            await runtime.run(name)


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1]))
