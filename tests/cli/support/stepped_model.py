"""An agent whose model says each piece only when it is given leave, from whichever process it runs in."""

import asyncio
import json
from pathlib import Path

from perdure import Agent, Gate, tool
from perdure.agent.model import OnText, Reply, Request, ToolCall


class SteppedModel:
    """Plays `pieces.json` in the folder that the prompt names: for each reply its pieces, each after a file `go-N-M`.

    A last piece of the form {NAME: ARGUMENTS} is a call.
    """

    name = "slow"

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        folder, number = Path(request.turns[0].text), request.number
        pieces = json.loads((folder / "pieces.json").read_text())[number]
        calls = tuple(ToolCall(f"c{number}", *one.popitem()) for one in pieces if isinstance(one, dict))
        said = [one for one in pieces if isinstance(one, str)]
        for nth, piece in enumerate([*said, None]):
            while not (folder / f"go-{number}-{nth}").exists():
                await asyncio.sleep(0.005)
            if piece is not None:
                on_text(piece)
        return Reply("".join(said), calls, stop="calls" if calls else "end")


@tool(replay="escalate", gate=Gate("stepped-gate", requester_may_decide=True))
def stepped_merge(pr: int) -> str:
    return f"merged {pr}"


stepped_agent = Agent("stepped_agent", model=SteppedModel(), tools=["delegate"], policy=None, snapshots=False)
stepped_merger = Agent(
    "stepped_merger", model=SteppedModel(), tools=["ask_person", stepped_merge], policy=None, snapshots=False
)
