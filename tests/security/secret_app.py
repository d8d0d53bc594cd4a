"""Programs and an agent that meet a secret everywhere. Its value is TEST_TOKEN in the environment of the process."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import perdure
from perdure import Agent, Bound, Call, Outcome, PerdureError, Secret, Session, faults, program, tool
from perdure.agent.model import Request
from perdure.cli.log import show_log
from perdure.testing import ScriptedModel

logger = logging.getLogger("perdure.secret_app")
HALF = 9  # characters of the value in the first piece of what a command prints


def value() -> str:
    return os.environ["TEST_TOKEN"]


@tool(replay="idempotent", inflight=0)
def send(call: Call, token: Secret, folder: str) -> str:
    """Send the token, in a request that the outside recognizes by its key."""
    with open(f"{folder}/sent", "a") as sent:
        sent.write(f"{call.key} {token.reveal()}\n")
    return f"sent with {token.reveal()}"


@tool(replay="probe", inflight=0)
def leak(call: Call, token: Secret | None) -> dict[str, Any]:
    assert token is not None
    call.reference(f"https://outside/{token.reveal()}")
    call.heartbeat(f"half of it: {token.reveal()}")
    raise ConnectionError(f"refused {token.reveal()}")


@leak.probe
def _(call: Call, token: Secret | None) -> Outcome:
    assert token is not None
    return Outcome.happened({token.reveal(): [token.reveal()]}, reference=token.reveal())


@tool(replay="pure", retry=1)
def fail(token: Secret) -> str:
    raise ValueError("x" * 3990 + token.reveal())  # the message is cut in the middle of the value


@tool(replay="pure", isolate="process")
def isolated(token: Secret) -> str:
    return f"isolated {token.reveal()}"


@program
async def sends(s: Session, folder: str) -> str:
    return await s.do(send, token=Secret("env:TEST_TOKEN"), folder=folder)


@program
async def leaks(s: Session) -> list[Any]:
    token = Secret("env:TEST_TOKEN")
    found = [await s.do(leak, token), await s.do(isolated, token), await s.step("read", value)]
    for act in (s.do(fail, token), s.step("fail", lambda: int(value()))):
        try:
            await act
        except PerdureError as error:
            found.append(error.message)
    logger.warning("Session %s: it used %s.", s.id, token.reveal())
    return found


def reply(request: Request) -> dict[str, Any]:
    first, second = value()[:HALF], value()[HALF:]
    printed = f"printf %s '{first}'; sleep 0.3; printf '%s\\n' '{second}'; seq 1 6000"
    match request.number:
        case 0:
            calls = [{"name": "run_command", "arguments": {"command": printed}}]
            return {"text": f"the value is {value()} here", "calls": calls}
        case 1:
            wrong = {"command": f"echo {value()} > stolen"}
            return {"text": "", "calls": [{"name": "run_command", "arguments": wrong}], "raw": {"thought": value()}}
        case 2:
            calls = [{"name": "list_files", "arguments": {}}]
            return {"text": "", "calls": calls}
    return {"text": f"all done, {value()}"}


def agent() -> Agent:
    return Agent(
        "leaky", model=ScriptedModel(reply), tools=["run_command", "list_files"], policy=None, unsandboxed=True,
        instructions="x",
    )  # fmt: skip


async def run_agent(store: str, repository: str, seen: str) -> None:
    """Run the agent, and keep what a watcher of its live text is given."""
    made = agent()
    async with perdure.open(store) as rt:
        with open(seen, "a") as pieces:
            rt.on_delta = lambda piece: print(piece.text, end="", file=pieces, flush=True)
            await rt.start(made.bind("begin"), id="agent", repository=repository)
            await rt.run("agent")


def main(what: str, store: str, folder: str, die: str = "") -> None:
    def reached(point: str) -> None:
        if point == die:
            os.kill(os.getpid(), signal.SIGKILL)

    faults.arm(reached)
    show_log(verbose=True, json=False)
    if what == "agent":
        asyncio.run(run_agent(store, f"{folder}/repository", f"{folder}/pieces"))
        return
    bound: Bound[Any] = sends.bind(folder=folder) if what == "sends" else leaks.bind()
    Path(folder, "result").write_text(repr(perdure.run(bound, id=what, store=store)))


if __name__ == "__main__":
    main(*sys.argv[1:])
