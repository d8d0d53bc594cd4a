"""A folder with protected contents, and commands that try to break out of it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from perdure.agent.commands.sandbox import Level, command_line, environment
from perdure.agent.commands.state import Bounds, CommandAttempts, CommandExit
from perdure.agent.files.workspace import Workspace
from perdure.ids import new_uid

BOUNDS = Bounds(seconds=30)


class SandboxedFolder:
    """A repository with a store inside, other files around it, and one sandbox level."""

    def __init__(self, folder: Path, level: Level) -> None:
        self.level = level
        self.root = folder / "repository"
        self.world = folder / "world"
        self.store = self.root / "state" / "perdure.db"
        self.mark = new_uid()
        for made in (self.root / "src", self.world, self.store.parent):
            made.mkdir(parents=True)
        self.store.write_text("the record")
        (self.world / "diary").write_text("dear diary")
        (self.root / "out").symlink_to(self.world / "diary")
        (self.root / "src" / "out").symlink_to(self.world / "diary")
        git = ["git", "-C", str(self.root), "-c", "user.name=ada", "-c", "user.email=ada@example.org"]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first words"], check=True)

    def workspace(self, *, network: bool = False) -> Workspace:
        state = self.store.parent
        return Workspace(self.root, session_uid="u", scratch=state / "scratch", protected=(state,), network=network)

    def run(
        self, command: str, *, bounds: Bounds = BOUNDS, read_only: bool = False, workspace: Workspace | None = None
    ) -> tuple[CommandExit, str]:
        """Run a command at this level; returns how it ended, and its output."""
        workspace = workspace or self.workspace()
        attempts = CommandAttempts(workspace, new_uid())
        temporary = attempts.prepare(1, command)
        argv = ["/bin/sh", "-c", command]
        line = command_line(workspace, argv, level=self.level, temporary=temporary, read_only=read_only)
        told = environment(workspace, self.level, temporary) | {"DEN": self.mark}
        command_exit = attempts.run(1, line, workspace=workspace, environment=told, bounds=bounds, beat=lambda: None)
        return command_exit, (command_exit.folder / "output").read_text(errors="replace")

    def left_behind(self) -> list[str]:
        """Live processes that a command of this folder started."""
        return running_with(f"DEN={self.mark}")


def running_with(mark: str) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark.encode() in Path("/proc", pid, "environ").read_bytes().split(b"\0"):
                found.append(pid)
        except OSError:  # it ended while we looked
            continue
    return found


def until(holds: Callable[[], object], seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
