"""An agent with a sub-agent in a process of its own, which is killed after a number of commits.

python -m tests.agent.support.sub_agent TARGET COMMITS LOG    runs it (0 commits: to its end), and prints the answer
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from perdure import Agent, Call, Outcome, faults, tool
from perdure.testing import ScriptedModel
from tests.agent.support.conversation import calls

COST = {"tokens_in": 1, "tokens_out": 1, "cost_micros": 1_000_000}


def log() -> Path:
    return Path(sys.argv[3])


@tool(replay="probe", inflight="10ms")
def post(call: Call, body: str) -> str:
    """Post something."""
    with log().open("a") as file:
        file.write(f"{call.key}\n")
    return f"posted {body}"


@post.probe
def _(call: Call, body: str) -> Outcome:
    there = log().exists() and call.key in log().read_text()
    return Outcome.happened(f"posted {body}") if there else Outcome.absent()


def declare() -> Agent:
    writing = ScriptedModel([calls(("post", {"body": "x"})) | {"usage": COST}, {"text": "Posted.", "usage": COST}])
    writer = Agent("writer", model=writing, tools=[post])
    script = [calls(("ask_writer", {"task": "Post x."})) | {"usage": COST}, {"text": "It is posted.", "usage": COST}]
    given = writer.as_tool("ask_writer", "Let the writer post something.")
    return Agent("editor", model=ScriptedModel(script), tools=[given])


def kill_after(commits: int) -> None:
    committed = 0

    def moment(name: str) -> None:
        nonlocal committed
        if committed >= commits and name in ("move.before", "commit.before"):
            os.kill(os.getpid(), signal.SIGKILL)
        committed += name == "commit.after"

    if commits:
        faults.arm(moment)


async def main(target: str, commits: int) -> None:
    editor = declare()
    kill_after(commits)
    result = await editor.run("Have x posted.", id="edit", store=target)
    print(result.output, result.cost)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
