"""An agent whose provider asks for patience, as often and for as long as the file `busy` in its folder says."""

from pathlib import Path

from perdure import Agent
from perdure.agent.model import OnText, Reply, Request
from perdure.errors import ModelError


class BusyModel:
    """Fails while the folder that the prompt names has a file `busy` with a delay; after the delay 0 it is removed."""

    name = "busy"

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        busy = Path(request.turns[0].text) / "busy"
        if not busy.exists():
            on_text("Here I am.")
            return Reply("Here I am.")
        seconds = float(busy.read_text())
        if seconds == 0:
            busy.unlink()
        raise ModelError("The rate limit of busy is \x1b[31mreached.", retry_after=seconds)


busy_agent = Agent("busy_agent", model=BusyModel(), tools=[], policy=None, snapshots=False)
