"""Stops a session that runs again and again without progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from perdure import Agent, faults
from perdure.agent.settings import Settings

MAX_RUNS = 12  # runs of one session without anything new to do


class TooManyRuns(Exception):
    """The program was begun again and again, and nothing had changed."""


def count_runs(agent: Agent) -> list[int]:
    """Count how often the agent is begun; too often is a loop that never yields its worker."""
    runs: list[int] = []
    ask: Callable[[dict[str, Any], str | None], Settings] = agent.settings

    def settings(arguments: dict[str, Any], chosen: str | None = None) -> Settings:
        runs.append(1)
        if len(runs) > MAX_RUNS:
            raise TooManyRuns
        return ask(arguments, chosen)

    agent.settings = settings  # type: ignore[method-assign]
    return runs


def cancel_after(most: int, running: asyncio.Task[Any]) -> None:
    """Cancel what commits more often than anything that ends can."""
    here, seen = asyncio.get_running_loop(), []

    def moment(name: str) -> None:
        seen.append(name)
        if seen.count("commit.after") > most:
            faults.disarm()
            here.call_soon_threadsafe(running.cancel)

    faults.arm(moment)
