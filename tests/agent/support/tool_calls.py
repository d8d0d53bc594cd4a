"""Helpers for tests of tools: a folder to work in, a repository, and calls as an agent makes them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from perdure.agent.tools import edit, git  # noqa: F401 - they fill PREPARE
from perdure.agent.tools.hidden_arguments import HIDDEN, PREPARE
from perdure.agent.tools.result import ToolResult
from perdure.runtime.definitions.tool import TOOLS, Call, Outcome

NAMED = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main"]
ALONE = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def run_git(folder: Path, *arguments: str) -> str:
    """Git as a user runs it."""
    done = subprocess.run(["git", *NAMED, *arguments], cwd=folder, env=ALONE, capture_output=True, check=True)
    return done.stdout.decode().strip()


def make_repository(folder: Path) -> Path:
    """A repository with one commit, and a bare remote beside it that has it too."""
    folder.mkdir(parents=True, exist_ok=True)
    run_git(folder, "init", "--quiet")
    (folder / "a.txt").write_text("one\n")
    run_git(folder, "add", "--all")
    run_git(folder, "commit", "--quiet", "--message", "first")
    remote = folder.with_name(folder.name + ".remote")
    run_git(folder, "init", "--quiet", "--bare", str(remote))
    run_git(folder, "remote", "add", "origin", str(remote))
    run_git(folder, "push", "--quiet", "origin", "main")
    return remote


def trust_hooks(folder: Path, home: Path) -> None:
    """Say in the person's own settings that git may run the hooks of a repository itself."""
    home.mkdir(exist_ok=True)
    (home / ".gitconfig").write_text(f"[perdure]\n\thooks = {folder.resolve()}\n")


def write_hook(hook: Path, script: str) -> None:
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n" + script)
    hook.chmod(0o755)


def prepared(name: str, given: dict[str, Any], known: dict[str, str | None]) -> dict[str, Any]:
    """The complete arguments of a call, as the agent asks for them before it plans."""
    made = PREPARE[name](given, known)
    assert set(made) >= HIDDEN[name]
    return TOOLS[name].signature.bind((), made)


def given(name: str, arguments: dict[str, Any], key: str) -> tuple[list[Call], dict[str, Any]]:
    tool = TOOLS[name]
    return ([Call(key, 1, "s", "e")] if tool.context.name else []), tool.signature.unbind(arguments)


def do(name: str, arguments: dict[str, Any], key: str = "k" * 64) -> ToolResult:
    """The act alone, with arguments that are complete."""
    first, open_runtime = given(name, arguments, key)
    said = TOOLS[name].function(*first, **open_runtime)
    assert isinstance(said, ToolResult)
    return said


def probe(name: str, arguments: dict[str, Any], key: str = "k" * 64) -> Outcome:
    first, open_runtime = given(name, arguments, key)
    looking = TOOLS[name].probe_function
    assert looking is not None
    outcome = looking(*first, **open_runtime)
    assert isinstance(outcome, Outcome)
    if outcome.said == "happened":
        TOOLS[name].signature.encode_result(outcome.result)
    return outcome


def call(tool: str, known: dict[str, str | None] | None = None, /, key: str = "k" * 64, **arguments: Any) -> ToolResult:
    """What a model's call comes to: prepared, then done."""
    return do(tool, prepared(tool, arguments, known or {}), key)
