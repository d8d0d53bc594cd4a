"""An agent with a typed answer in a process of its own, which is killed at a moment.

python -m tests.agent.support.typed_agent TARGET reply|answer|finished|none FILE    runs it, and prints the answer
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sys
from pathlib import Path

from perdure import Agent, faults
from perdure.agent.model import OnText, Reply, Request
from perdure.testing import ScriptedModel
from tests.agent.support.conversation import calls

REVIEW = {"ok": True, "notes": ["fine"]}
COMMITS = {"reply": 1, "answer": 2, "finished": 2}  # after the model has answered


@dataclasses.dataclass
class Review:
    ok: bool
    notes: list[str]


class CountingModel:
    """A scripted model that counts its calls in a file."""

    name = "scripted"

    def __init__(self, file: Path, moment: str) -> None:
        self._script = ScriptedModel([calls(("final_answer", {"answer": REVIEW}))])
        self._file = file
        self._moment = moment

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        with self._file.open("a") as file:
            file.write("call\n")
        if self._moment in COMMITS:
            _die_after(COMMITS[self._moment], "commit.before" if self._moment == "finished" else "move.before")
        return await self._script.reply(request, on_text)


def _die_after(commits: int, name_of_moment: str) -> None:
    committed = 0

    def moment(name: str) -> None:
        nonlocal committed
        if committed >= commits and name == name_of_moment:
            os.kill(os.getpid(), signal.SIGKILL)
        committed += name == "commit.after"

    faults.arm(moment)


async def main(target: str, moment: str, file: str) -> None:
    agent = Agent("typed", model=CountingModel(Path(file), moment), tools=[], output=Review)
    print((await agent.run("Review it.", id="review", store=target)).output)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
