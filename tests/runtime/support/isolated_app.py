"""Tools that run in a process of their own. `folder` is where they leave what another process can see."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from perdure import Call, NotDone, Session, program, tool


@tool(isolate="process")
def isolated_pid(call: Call, n: int) -> list[int]:
    call.reference(f"process {os.getpid()}")
    call.heartbeat()
    return [os.getpid(), os.getpgid(0), n]


@tool(isolate="process")
async def isolated_async(n: int) -> int:
    return n + 1


@tool(isolate="process", timeout="200ms")
def isolated_hangs(call: Call, folder: str) -> int:
    call.reference("order-7")
    (Path(folder) / f"pid-{call.attempt}").write_text(str(os.getpid()))
    time.sleep(120)
    return 1


@tool(isolate="process", timeout="60s")
def isolated_waits(call: Call, folder: str) -> int:
    place = Path(folder)
    (place / "temp").write_text(str(os.getpid()))
    (place / "temp").rename(place / "pid")
    until = time.monotonic() + 120
    while time.monotonic() < until:  # the test kills it long before
        time.sleep(0.1)
    return 7


@tool(isolate="process", safe_errors=(ConnectionRefusedError,), retry=1)
def isolated_ends(how: str) -> int:
    if how == "exit":
        os._exit(3)
    if how == "sys.exit":
        sys.exit(3)
    if how == "raise":
        raise OSError("the line was cut")
    if how == "refused":
        raise ConnectionRefusedError("connection refused")
    if how == "proof":
        raise NotDone("it is certain")
    return how  # type: ignore[return-value]


@tool(isolate="process")
def isolated_leaves(folder: str, how: str) -> int:
    """Leave a process in the same group behind, and end."""
    left = subprocess.Popen(["sleep", "300"]).pid if how == "crash" else os.fork()
    if left == 0:  # it has a copy of the socket
        until = time.monotonic() + 60
        while time.monotonic() < until and not (Path(folder) / "over").exists():
            time.sleep(0.01)
        os._exit(0)
    (Path(folder) / "left").write_text(str(left))
    if how == "crash":
        os._exit(3)
    return left


@program
async def isolated_run(s: Session, folder: str) -> int:
    return await s.do(isolated_waits, folder=folder)
