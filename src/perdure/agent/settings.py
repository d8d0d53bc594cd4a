"""What one run of an agent goes by: its model, its tools, its words and its limits."""

from __future__ import annotations

import msgspec

from perdure.agent.limits import Limits
from perdure.agent.model import Model
from perdure.agent.toolbox import Toolbox


class Settings(msgspec.Struct, frozen=True):
    """An agent's declaration, opened for a run. `context` is how many tokens of transcript a model is shown."""

    model: Model
    toolbox: Toolbox
    instructions: str
    limits: Limits
    context: int
    snapshots: bool = True  # keep the files after each change, so that a branch can begin there
    parallel: int = 8  # calls of one message that run side by side
    most_calls: int = 64  # … that are made at all
