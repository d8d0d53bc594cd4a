"""An agent whose model says each piece only when it is given leave, from whichever process it runs in."""

import asyncio
import json
from pathlib import Path

from perdure import Agent
from perdure.agent.model import OnText, Reply, Request, ToolCall


class SteppedModel:
    """Plays `pieces.json` in the folder that the prompt names: for each reply its pieces, each after a file `go-N-M`.

    A last piece of the form {"delegate": TASK} is a call.
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


stepped_agent = Agent("stepped_agent", model=SteppedModel(), tools=["delegate"], policy=None, snapshots=False)
