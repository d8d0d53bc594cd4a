"""An agent in a process of its own, that leaves a call dangling in one of the ways in which a call can.

python -m tests.agent.support.interrupted_agent TARGET WAY    runs it, and dies or stops as the way says
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import perdure
from perdure import Agent, Call, Outcome, faults, tool
from perdure.agent.model import OnText, Reply, Request
from perdure.testing import ScriptedModel
from tests.agent.support.conversation import calls

WAYS: dict[str, dict[str, Any]] = {
    "before dispatch": calls(("post_it", {"body": "hi"})),
    "running": calls(("send_mail", {"to": "ada"})),
    "finished": calls(("post_it", {"body": "hi"})),
    "parallel": calls(("post_it", {"body": "one"}), ("send_mail", {"to": "ada"}), ("post_it", {"body": "two"})),
    "timed out": calls(("hang_up", {})),
    "paused": calls(("send_mail", {"to": "ada"})),
    "resting": {"text": "Hello."},
    "child alive": calls(("run_command", {"command": "echo begun >> begun; read line < fifo; echo heard $line"})),
}
AFTER: list[Any] = [calls(("look_out", {})), "I know where I am.", "Thank you."]


def log() -> Path:
    return Path(os.environ["PERDURE_TEST_LOG"])


def act(name: str, key: str) -> None:
    """Something that happens outside, once."""
    with log().open("a") as file:
        file.write(f"{name} {key}\n")


def die_if(way: str) -> None:
    if os.environ.get("PERDURE_TEST_WAY") == way:
        os.kill(os.getpid(), signal.SIGSTOP if way == "paused" else signal.SIGKILL)


@tool(replay="probe", inflight="10ms")
def post_it(call: Call, body: str) -> str:
    """Post something."""
    act(f"post {body}", call.key)
    die_if("finished")
    return f"posted {body}"


@post_it.probe
def _(call: Call, body: str) -> Outcome:
    there = log().exists() and call.key in log().read_text()
    return Outcome.happened(f"posted {body}") if there else Outcome.absent()


@tool(inflight="10ms")
def send_mail(call: Call, to: str) -> str:
    """Send a mail."""
    act(f"mail {to}", call.key)
    die_if("running")
    die_if("parallel")
    die_if("paused")
    return f"mailed {to}"


@tool(inflight="10ms", timeout="50ms")
async def hang_up(call: Call) -> str:
    """Never answer."""
    act("hang", call.key)
    await asyncio.sleep(3600)
    return "never"


@tool(replay="pure")
def look_out() -> str:
    """Look around."""
    return "all quiet"


class TextRecorder:
    """A scripted model that writes down what it was told, so that a test in another process can read it."""

    def __init__(self, way: str) -> None:
        self._script = ScriptedModel([WAYS[way], *AFTER])
        self.seen: list[list[str]] = []

    @property
    def name(self) -> str:
        return "scripted"

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        self.seen.append([turn.text for turn in request.turns if turn.role == "tool" or turn.text.startswith("[")])
        reply = await self._script.reply(request, on_text)
        way = os.environ.get("PERDURE_TEST_WAY")
        if way == "before dispatch" and reply.calls:
            _die_after(1)  # the reply is committed, the dispatch of its call is not
        if way == "resting":
            _die_after(2)  # the reply and the wait for a message are committed, and it is not parked
        return reply


def _die_after(commits: int) -> None:
    """Die before what comes after so many commits."""
    committed = 0

    def moment(name: str) -> None:
        nonlocal committed
        if committed >= commits and name in ("move.before", "commit.before"):
            os.kill(os.getpid(), signal.SIGKILL)
        committed += name == "commit.after"

    faults.arm(moment)


def agent(way: str) -> tuple[Agent, TextRecorder]:
    model = TextRecorder(way)
    tools: list[Any] = [post_it, send_mail, hang_up, look_out, "run_command"]
    declared = Agent("dangling", model=model, tools=tools, policy=None, parallel=1, unsandboxed=True, snapshots=False)
    return declared, model


async def main(target: str, way: str) -> None:
    declared, _ = agent(way)
    async with perdure.open(target, lease="1s" if way == "paused" else "15s") as runtime:
        session = await runtime.start(declared.bind("begin"), id="dangling", repository=log().parent / "work")
        await runtime.run(session.id)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], os.environ["PERDURE_TEST_WAY"]))
