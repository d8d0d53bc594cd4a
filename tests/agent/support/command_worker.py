"""A worker in a process of its own that runs one command, and can be killed at a chosen point."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from perdure import faults
from perdure.agent.files.workspace import Workspace
from perdure.agent.tools import command
from perdure.runtime.definitions.tool import Call


def workspace_of(folder: Path) -> Workspace:
    """A folder and its scratch; without a sandbox if there is none, because a fate is the same with and without one."""
    (root := folder / "place").mkdir(exist_ok=True)
    return Workspace(root, session_uid="u", scratch=folder / "scratch", unsandboxed=True)


def start_worker(folder: Path, text: str, *, attempt: int = 1, die: str = "") -> subprocess.Popen[str]:
    """Start a labourer; it prints what the command came to, if it lives."""
    start = [sys.executable, "-m", __name__, str(folder), text, str(attempt), die]
    return subprocess.Popen(start, stdout=subprocess.PIPE, text=True)


def main(folder: str, text: str, attempt: str, die: str) -> None:
    def reached(point: str) -> None:
        if point == die:
            os.kill(os.getpid(), signal.SIGKILL)

    faults.arm(reached)
    with workspace_of(Path(folder)).active():
        said = command.run_command(Call("k", int(attempt), "s", "e"), text, 60)
    print(json.dumps([said.text, said.failed]))


if __name__ == "__main__":
    main(*sys.argv[1:])
