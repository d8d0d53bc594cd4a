"""The reserved tool behind `s.approve`: an intent that only asks people.

An approval is bound to an effect. So a program that asks for approval without acting plans an effect of this tool; its
act does nothing. Votes, quorum, expiry, forks and recovery are those of every effect. No policy judges it.
"""

from __future__ import annotations

from typing import Any

from perdure.errors import ConfigError
from perdure.runtime.definitions.tool import Gate, Tool, tool

NAME = "perdure.approve"


def _ask(title: str, detail: Any = None) -> None:  # noqa: ARG001 - the arguments are what people are shown
    return None


APPROVE: Tool[..., None] = tool(name=NAME, replay="pure", reach="none")(_ask)


def approval_tool(title: str, quorum: int, timeout: str | float | None) -> Tool[..., None]:
    """The tool with the gate of one request."""
    if not str(title).strip():
        raise ConfigError("s.approve: the title is empty.", hint="Say what people approve.")
    if type(quorum) is not int or quorum < 1:
        raise ConfigError(f"s.approve: the quorum cannot be {quorum!r}.", hint="It is a whole number from 1.")
    return APPROVE._with(gate=Gate("approval", quorum=quorum, expires=timeout))
