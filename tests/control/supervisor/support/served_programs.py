"""Programs for tests of `perdure serve` and `perdure worker`. Effects are lines of a file, which a probe reads."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from perdure import Call, Outcome, Session, program, tool


@tool(replay="probe", inflight="0s")
def post_line(folder: str, line: str) -> None:
    with open(Path(folder, "lines"), "a") as file:
        file.write(f"{line}\n")


@post_line.probe
def _(call: Call, folder: str, line: str) -> Outcome:
    path = Path(folder, "lines")
    found = path.read_text().split("\n") if path.exists() else []
    return Outcome.happened(None) if line in found else Outcome.absent()


@tool
def post_slowly(folder: str, line: str) -> None:
    """A tool whose outcome only its process knows: an unknown outcome needs a person."""
    Path(folder, "acting").touch()
    while not Path(folder, "act").exists():
        time.sleep(0.01)
    post_line.function(folder, line)


async def wait_for(folder: str, name: str) -> None:
    while not Path(folder, name).exists():
        await asyncio.sleep(0.01)


@program
async def served_stages(s: Session, folder: str, gate: str = "go") -> str:
    """Two effects, with a gate between them that a test opens."""
    await s.do(post_line, folder=folder, line=f"{s.id} 1")
    Path(folder, f"{s.id}-waits").touch()
    await wait_for(folder, gate)
    await s.do(post_line, folder=folder, line=f"{s.id} 2")
    return "done"


@program
async def served_slow_act(s: Session, folder: str) -> str:
    await s.do(post_slowly, folder=folder, line=s.id)
    return "done"


@program
async def served_trouble(s: Session, folder: str, kind: str) -> str:
    """Trouble for the process that runs it, until a file `mended` exists."""
    if not Path(folder, "mended").exists():
        Path(folder, f"{kind}-met").touch()
        if kind == "exit":
            os._exit(0)
        if kind == "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.1)
        if kind == "block":
            while not Path(folder, "mended").exists():
                time.sleep(0.05)
        if kind == "memory":
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
            eaten = []
            while True:
                eaten.append(bytearray(1 << 26))
        if kind == "raise":
            raise RuntimeError("trouble")
    return "mended"
