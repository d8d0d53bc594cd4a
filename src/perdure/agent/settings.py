"""The settings of one run of an agent: model, tools, instructions and limits.

A limit bounds what an agent does without a person. Each counts from one message of a person to the next.
"""

from __future__ import annotations

import msgspec

from perdure.agent.history.transcript import State
from perdure.agent.model import Model
from perdure.agent.toolbox import Toolbox
from perdure.runtime.definitions.durations import microseconds


class Settings(msgspec.Struct, frozen=True):
    """An agent's declaration, opened for a run. `context` is how many tokens of transcript a model is shown."""

    model: Model
    toolbox: Toolbox
    instructions: str
    limits: Limits
    context: int
    snapshots: bool = True  # take a snapshot after each change of files, so that a branch can start there
    parallel: int = 8  # how many calls of one message run at the same time
    most_calls: int = 64  # … and how many are made at all
    typed: bool = False  # the answer is delivered by a tool (`agent.final_answer`)


MICROS = 1_000_000


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """`turns` are model calls, `tokens` in and out, `cost` in dollars, `time` such as "30m". None: no limit."""

    __module__ = "perdure"

    turns: int | None = 100
    tokens: int | None = None
    cost: float | None = None
    time: str | float | None = None


def reached(limits: Limits, state: State, unwritten: int = 0) -> str | None:
    """The limit that is reached, as a sentence, or None. `unwritten` is time worked that no line records yet."""
    worked = state.worked + unwritten
    if limits.turns is not None and state.turns >= limits.turns:
        return f"{state.turns} model calls were made, which is the limit."
    if limits.tokens is not None and state.tokens >= limits.tokens:
        return f"{state.tokens:,} tokens were used, and the limit is {limits.tokens:,}."
    if limits.cost is not None and state.cost_micros >= limits.cost * MICROS:
        return f"${state.cost_micros / MICROS:.2f} were spent, and the limit is ${limits.cost:.2f}."
    if limits.time is not None and worked >= microseconds(limits.time):
        return f"The agent has worked for {worked // MICROS:,} s, and the limit is {limits.time}."
    return None


def time_left(limits: Limits, state: State, unwritten: int) -> int | None:
    """The microseconds of work that are left, or None without a limit."""
    return None if limits.time is None else microseconds(limits.time) - state.worked - unwritten
