"""Programs of a service whose processes are killed.

If the file `die` is there, the process `http` kills itself as soon as a commit is durable, before a client is answered.
"""

from __future__ import annotations

import os
import signal
import sys

from perdure import Call, Gate, Session, faults, program, tool

FOLDER = os.environ.get("XDG_DATA_HOME", "")


def die_unanswered(point: str) -> None:
    """The death of one process: the next one finds the file no more."""
    if point == "commit.after" and os.path.exists(os.path.join(FOLDER, "die")):
        os.unlink(os.path.join(FOLDER, "die"))
        os.kill(os.getpid(), signal.SIGKILL)


if sys.argv[1:3] == ["service", "http"]:
    faults.arm(die_unanswered)


@tool(replay="idempotent", gate=Gate("killed-gate", quorum=2))
def killed_merge(call: Call, n: int) -> int:
    """Each attempt writes its key: one effect has one key, and the outside keeps what it has seen once."""
    with open(os.path.join(FOLDER, "merged"), "a") as file:
        file.write(f"{n} {call.key}\n")
    return n


@program
async def killed_review(s: Session, n: int) -> int:
    return await s.do(killed_merge, n=n)


@program
async def killed_echo(s: Session, n: int) -> int:
    return await s.step("echo", lambda: n)
