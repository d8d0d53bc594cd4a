"""The group `interrupt`: the time from Escape to the prompt, at a real pseudo-terminal, while other processes use every
core.

One agent runs a command that ignores SIGTERM and has a child that ignores it too. The other streams an answer slowly.
"""

from __future__ import annotations

import asyncio
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.measure import Budget, Line, Table, figure
from perdure import Agent
from perdure.agent.model import OnText, Reply, Request, ToolCall
from perdure.evaluation.measurement import MILLISECONDS
from perdure.ids import new_name
from perdure.testing.postgres import PostgresServer

LOAD = 2 * (os.cpu_count() or 1)  # processes that compute all the time
STUBBORN = "trap '' TERM; (trap '' TERM; while :; do sleep 0.1; done) & for n in 1 2 3; do echo word-$n; done; wait"
BUDGET = Budget("≤", 1.0)  # seconds
PATIENCE = 60.0
BEGUN, STOPPED, PROMPT = b"word-3", b"stopped the work here.", b"> "
CASES = {
    "a command that ignores SIGTERM": "stubborn_command",
    "a model that streams slowly": "slow_stream",
}


class StubbornCommand:
    """Runs a command that ends only when it is killed."""

    name = "stubborn"

    async def reply(self, request: Request, on_text: OnText) -> Reply:  # noqa: ARG002 - always the same
        return Reply("I run it.", (ToolCall("c", "run_command", {"command": STUBBORN}),), stop="calls")


class SlowStream:
    """Streams a word now and then."""

    name = "stream"

    async def reply(self, request: Request, on_text: OnText) -> Reply:  # noqa: ARG002 - always the same
        number = 0
        while True:
            on_text(f"word-{number} ")
            number += 1
            await asyncio.sleep(0.2)


stubborn_command = Agent(
    "stubborn_command", model=StubbornCommand(), tools=["run_command"], policy=None, unsandboxed=True
)
slow_stream = Agent("slow_stream", model=SlowStream(), tools=[], policy=None)


def tables(folder: Path, rounds: int) -> Iterator[Table]:
    yield Table("Escape to prompt under load, SQLite", lines(folder, str(folder / "interrupt.db"), rounds))
    yield Table("Escape to prompt under load, PostgreSQL", postgres(folder, rounds))


def postgres(folder: Path, rounds: int) -> Iterator[Line]:
    with PostgresServer() as server:
        yield from lines(folder, str(server.create_database()), rounds)


def lines(folder: Path, store: str, rounds: int) -> Iterator[Line]:
    for case, agent in CASES.items():
        with load():
            yield figure(case, MILLISECONDS, lambda agent=agent: once(folder, store, agent), BUDGET, rounds=rounds)  # type: ignore[misc]


@contextmanager
def load() -> Iterator[None]:
    """Keep every core busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOAD)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def once(folder: Path, store: str, agent: str) -> float:
    """Seconds from Escape to the prompt."""
    work = folder / new_name("work")
    work.mkdir()
    words = [sys.executable, "-m", "perdure", "run", agent, "prompt=begin", "--repo", str(work), "--store", store]
    with ExitStack() as stack:
        screen, process = _open_terminal([*words, "--app", __file__])
        stack.callback(os.close, screen)
        stack.callback(_kill, process)
        _read_until(screen, BEGUN)
        begun = time.perf_counter()
        os.write(screen, b"\x1b")
        _read_until(screen, STOPPED, PROMPT)
        return time.perf_counter() - begun


def _open_terminal(words: list[str]) -> tuple[int, subprocess.Popen[bytes]]:
    screen, theirs = pty.openpty()
    settings = {"TERM": "xterm-256color", "PYTHONPATH": str(Path(__file__).parents[1])}
    process = subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=os.environ | settings
    )
    os.close(theirs)
    return screen, process


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read_until(screen: int, *wanted: bytes) -> None:
    """Read what the terminal shows, until it has shown these texts in this order."""
    shown, at, deadline = b"", 0, time.monotonic() + PATIENCE
    for one in wanted:
        while (found := shown.find(one, at)) < 0:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([screen], [], [], left)[0]:
                raise TimeoutError(f"The terminal did not show {one!r}, but {shown[-2000:]!r}.")
            shown += os.read(screen, 1 << 16)
        at = found + len(one)
