"""What `perdure demo` does, apart from telling it: real commands in processes of their own, a real kill, and looks.

Nobody's word is taken: not the agent's, which says what it believes, and not the ledger's, which is what is shown.
What is there is counted from outside. The demo itself never opens the store: it types what a person would type.
Whoever kills the demo leaves nothing running: the service and whoever stands still end when their standard input does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.cli.demo.fixtures import alone, examples
from perdure.config import FILE
from perdure.control.trust import trust
from perdure.errors import SessionFailed

if TYPE_CHECKING:
    from perdure.testing.sink import Sink

LIMIT = 60.0  # seconds for one command, which takes about one
PERDURE = ("-P", "-c", "from perdure.cli import main; main()")


class CommandRun(msgspec.Struct):
    """One command in its process: what was typed, what it said, and how it ended."""

    typed: list[str]
    pid: int
    code: int
    said: list[str]
    kept_at_kill: int | None = None  # comments in the service's own log when it was killed


class DemoEnvironment:
    """A folder to type commands in, with a service outside."""

    def __init__(self, folder: Path, service: Sink, *, store: str | None, sandboxed: bool) -> None:
        """`store` is the address that was given to the demo; without one it is a file in the folder."""
        self.folder = folder
        self._service = service
        apps = ", ".join(f'"{path}"' for path in examples())
        settings = f'store = "demo.db"\napp = [{apps}]\nby = "demo"\n'
        (folder / FILE).write_text(settings, encoding="utf-8")
        trust(folder / FILE, settings)  # we wrote it: whoever types a command here later is not asked
        self._environment = alone() | {
            "COMMENTS_URL": service.run("comments").url,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        }
        if store is not None:
            self._environment |= {"PERDURE_STORE": store, "PERDURE_ARTIFACTS": str(folder / "large")}
        if not sandboxed:
            self._environment["FIXER_UNSANDBOXED"] = "1"

    def type(self, *words: str, codes: tuple[int, ...] = (0,)) -> CommandRun:
        """Run one command to its end, in a process of its own."""
        return self._live(words, codes, kill=False)

    def type_and_kill(self, *words: str) -> CommandRun:
        """The same, but its tool stands still when the service has committed, and there it is killed."""
        return self._live(words, (-signal.SIGKILL,), kill=True)

    def read(self, *words: str) -> list[Any]:
        """What a command prints as JSON, an object a line."""
        return [msgspec.json.decode(line) for line in self.type(*words, "--json").said]

    def comments(self) -> int:
        """How many comments there are, by the service's own log."""
        return sum(self._service.lasting("comments").values())

    def _live(self, words: tuple[str, ...], codes: tuple[int, ...], *, kill: bool) -> CommandRun:
        line = [sys.executable, *PERDURE, *words]
        environment = self._environment | ({"COMMENTS_STOP": "1"} if kill else {})
        pipe, said, kept = subprocess.PIPE, [], None
        with subprocess.Popen(
            line, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment, cwd=self.folder
        ) as process:
            limit = threading.Timer(LIMIT, process.kill)
            limit.start()
            try:
                for text in process.stdout or ():
                    said.append(text.rstrip("\n"))
                    if kill and text.startswith("stopped: "):
                        kept = self.comments()
                        process.send_signal(signal.SIGKILL)
                errors = process.communicate()[1].strip()
            finally:
                limit.cancel()
                process.kill()
        if process.returncode not in codes:
            raise SessionFailed(f"`perdure {words[0]}` ended with {process.returncode}: {errors or 'no message'}")
        return CommandRun(list(words), process.pid, process.returncode, said, kept)
