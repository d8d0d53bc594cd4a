"""The command line as the tests use it: in this process where that is enough, in one of its own where it is not.

A process is given its environment by hand: pytest loads readline, which sets COLUMNS behind Python's back.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from perdure.cli import main
from perdure.control.trust import trust
from perdure.testing.proxy import wait_until

PROGRAMS_FILE = str(Path(__file__).with_name("programs.py"))
PERDURE = str(Path(sys.executable).with_name("perdure"))


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Terminal:
    """A current folder with a store in it, and the test programs as the app."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def __call__(self, *arguments: str) -> CommandResult:
        """Run a command in this process."""
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert isinstance(ended.value.code, int)
        said = self._capsys.readouterr()
        return CommandResult(ended.value.code, said.out, said.err)

    def process(self, *arguments: str) -> CommandResult:
        """Run the real executable, to its end."""
        ended = subprocess.run([PERDURE, *arguments], capture_output=True, text=True, timeout=180, env=dict(os.environ))
        return CommandResult(ended.returncode, ended.stdout, ended.stderr)

    def start(self, *arguments: str, ignoring_interrupts: bool = False) -> subprocess.Popen[str]:
        """Start the real executable, and do not wait for it."""
        ignoring = ["/bin/sh", "-c", 'trap \'\' INT; exec "$0" "$@"'] if ignoring_interrupts else []
        command = [*ignoring, PERDURE, *arguments]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
        )

    def run(self, program: str, id: str, *arguments: str) -> CommandResult:
        return self("run", program, f"folder={self.folder}", *arguments, "--id", id)

    def wait_of(self, id: str) -> str:
        """The one thing that a session waits for."""
        (found,) = self("show", id, "--json").json["waits"]
        return str(found["id"])

    def until_status(self, id: str, status: str) -> None:
        """Wait until a session has this status."""
        show = ("show", id, "--json")
        wait_until(lambda: bool(self(*show).json["session"]["status"] == status), f"session {id} is {status}")

    def arm(self) -> None:
        (self.folder / "die").touch()


def write_settings(text: str, folder: Path | None = None) -> None:
    """Write a perdure.toml, and trust it as the user would."""
    path = (folder or Path.cwd()) / "perdure.toml"
    path.write_text(text)
    trust(path, text)


def clean_environment(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """No settings but those of the test."""
    for name in [name for name in os.environ if name.startswith("PERDURE_")] + ["COLUMNS", "NO_COLOR"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.setenv("PERDURE_APP", PROGRAMS_FILE)
    monkeypatch.setenv("PERDURE_BY", "ada")
