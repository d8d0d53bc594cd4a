"""An agent of the command line with a repository to work in, and branches of it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.cli.support.terminal import CommandResult, Terminal

BRANCH_PROGRAMS_FILE = str(Path(__file__).with_name("branch_programs.py"))  # bookings that can be taken back


def make_repository(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "begin")):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True)
    return folder


def call(*named: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"text": "", "calls": [{"name": name, "arguments": given} for name, given in named]}


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return ("write_file", {"path": path, "content": content})


def work(terminal: Terminal, script: list[Any], *options: str, repo: str = "work") -> CommandResult:
    """Run an agent as session `s`, to its first rest."""
    Path("script.json").write_text(json.dumps(script))
    model = ("--model", f"scripted:{Path('script.json').absolute()}")
    return terminal("run", "do it", *model, "--repo", repo, "--id", "s", *options)


def branch(terminal: Terminal, name: str = "b", of: str = "s") -> None:
    """A branch that has done its work."""
    for words in (("fork", of, "--id", name), ("send", name, "another way"), ("resume", name)):
        assert terminal(*words).code == 0


def events(terminal: Terminal, role: str, of: str = "s") -> list[int]:
    found = terminal("show", of, "--json", "--last", "100").json["events"]
    return [one["number"] for one in found if one["kind"] == "message" and one["body"]["role"] == role]
