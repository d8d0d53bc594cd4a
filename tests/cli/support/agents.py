"""Agents for the command-line tests: a folder to work in, a store beside it, and a script that the model plays."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from perdure.testing.proxy import wait_until
from tests.cli.support.pseudo_terminal import PseudoTerminal
from tests.cli.support.terminal import PROGRAMS_FILE, CommandResult, Terminal

Turn = dict[str, Any] | str


def calls(text: str, *made: tuple[str, dict[str, Any]], **more: Any) -> Turn:
    return {"text": text, "calls": [{"name": name, "arguments": given} for name, given in made]} | more


class AgentFolder:
    """A folder in which an agent works, with one file; the store is beside it."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.folder = terminal.folder / "work"
        self.folder.mkdir()
        (self.folder / "a.py").write_text("x = 1\n")

    def script(self, *turns: Turn) -> list[str]:
        """What to type to begin: a prompt for a model that plays these turns."""
        path = self.terminal.folder / "script.json"
        path.write_text(json.dumps(turns))
        tools = ("read_file", "edit_file", "write_file", "run_command", "ask_person", "remember", "user_hold")
        options = [word for tool in tools for word in ("--tool", tool)]
        options += ["--model", f"scripted:{path}", "--repo", str(self.folder), "--app", PROGRAMS_FILE]
        return ["run", "change x", "--id", "one", *options]

    def open_terminal(self, *arguments: str, **environment: Any) -> PseudoTerminal:
        return PseudoTerminal(*arguments, cwd=self.terminal.folder, **environment)

    def __call__(self, *arguments: str) -> CommandResult:
        return self.terminal(*arguments)

    @property
    def held(self) -> Path:
        """There while the tool `user_hold` is in the middle of its act."""
        return self.folder / "held"

    def session(self, id: str = "one") -> dict[str, Any]:
        found: dict[str, Any] = self("show", id, "--json").json["session"]
        return found

    def until_held(self, *seats: PseudoTerminal) -> None:
        for seat in seats:
            seat.until("user_hold")
        wait_until(self.held.exists, f"the tool has begun: {[seat.text for seat in seats]}")

    def end_workers(self) -> None:
        """Kill workers in the background, which would run on."""
        for log in self.terminal.folder.glob("perdure.db.d/logs/*"):
            for pid in re.findall(r"^worker \S+:(\d+)$", log.read_text(), re.MULTILINE):
                with suppress(ProcessLookupError, FileNotFoundError):
                    if b"\0worker\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        os.kill(int(pid), signal.SIGKILL)

    def hold(self, text: str = "I hold.") -> Turn:
        return calls(text, ("user_hold", {"folder": str(self.folder)}))
