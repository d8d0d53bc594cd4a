"""Calls of a runtime in a process that kills itself at its n-th durable point."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap

_SCRIPT = """
import asyncio, os, signal, sys
import perdure
from perdure import faults

target, kill_at, seen = sys.argv[1], int(sys.argv[2]), [0]

def kill(point):
    if point.startswith(("move.", "commit.")):
        seen[0] += 1
        if seen[0] == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with perdure.open(target, by="ada") as rt:
        faults.arm(kill)
{calls}

asyncio.run(main())
"""


async def run_and_kill(target: str, calls: str, kill_at: int) -> int:
    """The exit code of a process that makes these calls of `rt`. With `kill_at` 0 it is not killed."""
    script = _SCRIPT.format(calls=textwrap.indent(textwrap.dedent(calls).strip(), " " * 8))
    command = [sys.executable, "-c", script, target, str(kill_at)]
    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=180)
    return ended.returncode
