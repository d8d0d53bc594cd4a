"""Where the demo runs: a folder, a service outside, and real commands in separate processes, one of which is killed.

Results are counted outside: neither the agent's answer nor the ledger counts as proof. The demo itself never opens the
store; it runs the commands that a person would type. If the demo is killed, nothing keeps running: the service and a
waiting tool exit when their standard input closes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from perdure.cli.demo.fixtures import clean_environment, examples
from perdure.config import FILE
from perdure.control.trust import trust
from perdure.errors import SessionFailed
from perdure.testing.sink import Sink

LIMIT = 60.0  # seconds for one command, which takes about one
PERDURE = ("-P", "-c", "from perdure.cli import main; main()")


class CommandRun(msgspec.Struct):
    """One command in its own process: its arguments, its output, and its exit code."""

    typed: list[str]
    pid: int
    code: int
    said: list[str]
    kept_at_kill: int | None = None  # comments in the log of the service when it was killed


class DemoEnvironment:
    """A folder in which commands are run, with a service outside."""

    def __init__(self, folder: Path, service: Sink, *, store: str | None, sandboxed: bool) -> None:
        """`store` is the address that the user gave; without one, the store is a file in the folder."""
        self.folder = folder
        self._service = service
        apps = ", ".join(f'"{path}"' for path in examples())
        settings = f'store = "demo.db"\napp = [{apps}]\nby = "demo"\n'
        (folder / FILE).write_text(settings, encoding="utf-8")
        trust(folder / FILE, settings)  # the demo wrote it, so a later command in this folder does not ask
        self._environment = clean_environment() | {
            "COMMENTS_URL": service.run("comments").url,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        }
        if store is not None:
            self._environment |= {"PERDURE_STORE": store, "PERDURE_ARTIFACTS": str(folder / "large")}
        if not sandboxed:
            self._environment["FIXER_UNSANDBOXED"] = "1"

    def run(self, *words: str, codes: tuple[int, ...] = (0,)) -> CommandRun:
        """Run one command to its end, in its own process."""
        return self._run(words, codes, kill=False)

    def run_and_kill(self, *words: str) -> CommandRun:
        """The same, but its tool waits when the service has committed, and the process is killed there."""
        return self._run(words, (-signal.SIGKILL,), kill=True)

    def read(self, *words: str) -> list[Any]:
        """The JSON objects that a command prints, one per line."""
        return [msgspec.json.decode(line) for line in self.run(*words, "--json").said]

    def comments(self) -> int:
        """How many comments there are, according to the log of the service."""
        return sum(self._service.lasting("comments").values())

    def _run(self, words: tuple[str, ...], codes: tuple[int, ...], *, kill: bool) -> CommandRun:
        line = [sys.executable, *PERDURE, *words]
        environment = self._environment | ({"COMMENTS_STOP": "1"} if kill else {})
        pipe, lines, kept = subprocess.PIPE, [], None
        with subprocess.Popen(
            line, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment, cwd=self.folder
        ) as process:
            limit = threading.Timer(LIMIT, process.kill)
            limit.start()
            try:
                for text in process.stdout or ():
                    lines.append(text.rstrip("\n"))
                    if kill and text.startswith("stopped: "):
                        kept = self.comments()
                        process.send_signal(signal.SIGKILL)
                errors = process.communicate()[1].strip()
            finally:
                limit.cancel()
                process.kill()
        if process.returncode not in codes:
            raise SessionFailed(f"`perdure {words[0]}` exited with {process.returncode}: {errors or 'no message'}")
        return CommandRun(list(words), process.pid, process.returncode, lines, kept)
