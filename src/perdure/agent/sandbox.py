"""The sandbox: what a command that an agent runs can touch. The strongest level that works here is taken, or none.

A level counts only after it was really tried. Where none works, a command is refused, unless whoever made the workspace
said that it may run without one; the level of every attempt is written into the ledger.

Whatever the level, a command is told no secrets by its environment, cannot gain privileges, and is limited by its
shepherd in time, processes, room on the disk and output.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path

from perdure.agent.sandboxes import bubblewrap, landlock
from perdure.agent.sandboxes.bubblewrap import Folders
from perdure.agent.workspace import Workspace
from perdure.config import FILE
from perdure.errors import NotDone

_SECRET = ("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_ACCESS_KEY", "_KEY_ID", "_CREDENTIALS", "DATABASE_URL")
_QUIET = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "TERM": "dumb"}


class Level(StrEnum):
    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    NONE = "none"


@cache
def available() -> Level:
    """The strongest level that works here, tried once in the life of this process."""
    if bubblewrap.found() is not None:
        return Level.BUBBLEWRAP
    return Level.LANDLOCK if landlock_works() else Level.NONE


@cache
def landlock_works() -> bool:
    if landlock.abi() < landlock.ABI:
        return False
    trial = [*_fence(network=False, granted=[]), "--", "/bin/sh", "-c", "exit 42"]
    try:
        tried = subprocess.run(trial, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return False
    return tried.returncode == 42


def level_for(workspace: Workspace) -> Level:
    """The level that a command in this workspace runs at; `NotDone` where there is none and none is not allowed."""
    level = available()
    if level is Level.NONE and not workspace.unsandboxed:
        raise NotDone(
            "No sandbox can be had here, so the command was not run.",
            hint="Install bubblewrap, or allow commands without a sandbox for this agent.",
        )
    return level


def command_line(
    workspace: Workspace,
    argv: list[str],
    *,
    level: Level,
    temporary: Path,
    hidden: tuple[Path, ...] = (),
    read_only: bool = False,
    shown: tuple[Path, ...] = (),
    granted: tuple[Path, ...] = (),
) -> list[str]:
    """What to run so that `argv` runs at this level. `argv` names its program by an absolute path.

    `temporary` is where it may leave things where `/tmp` cannot be its own; with `read_only`, the folder is not
    writable either. `hidden` is protected like what the workspace itself protects. `shown` can be read wherever it
    lies, and `granted` can be written.
    """
    if level is Level.NONE:
        return argv
    protected = _protected(workspace, hidden, read_only=read_only)
    if level is Level.BUBBLEWRAP:
        found = bubblewrap.found()
        assert found is not None
        folders = Folders(hidden=protected, shown=shown, granted=granted, read_only=read_only)
        return found.command_line(workspace, argv, folders)
    kept = (*protected, workspace.root / ".git", workspace.root / FILE)
    may = [temporary, *granted, *(() if read_only else _grants(workspace.root, kept))]
    return [*_fence(network=workspace.network, granted=may), "--", *argv]


def environment(level: Level, temporary: Path, *, without: str = "") -> dict[str, str]:
    """What a command is told by its environment: ours without secrets, and nothing that asks or pages.

    What begins with `without` is left out too.
    """
    left_out = ("PERDURE_", without) if without else ("PERDURE_",)
    kept = {name: value for name, value in os.environ.items() if not _is_secret(name, left_out)}
    own = {} if level is Level.BUBBLEWRAP else {"TMPDIR": str(temporary)}
    if level is Level.BUBBLEWRAP:
        kept.pop("TMPDIR", None)
    return kept | _QUIET | own


def _is_secret(name: str, left_out: tuple[str, ...]) -> bool:
    return name.startswith(left_out) or name.upper().endswith(_SECRET)


def _protected(workspace: Workspace, hidden: tuple[Path, ...], *, read_only: bool) -> tuple[Path, ...]:
    """What must stay out of reach. A name that is not there yet cannot be kept free, so it is refused."""
    root = workspace.root
    if (root / ".git").is_symlink():
        raise NotDone("The .git of this folder is a symbolic link, which cannot be protected.")
    found = dict.fromkeys((*workspace.protected, *(path.resolve() for path in hidden)))
    for path in found:
        if path == root:
            raise NotDone("The folder of this session is itself protected.")
        if root in path.parents and not path.exists() and not read_only:
            raise NotDone(f"{path.relative_to(root)} is protected and not there: a command could make it.")
    return tuple(found)


def _grants(folder: Path, kept: tuple[Path, ...]) -> Iterator[Path]:
    """What may be written so that nothing in `kept` can be: a folder whole, or its other entries one by one."""
    if not any(folder == path or folder in path.parents for path in kept if os.path.lexists(path)):
        yield folder
        return
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink() or entry in kept:
            continue
        if entry.is_dir():
            yield from _grants(entry, kept)
        else:
            yield entry


def _fence(*, network: bool, granted: list[Path]) -> list[str]:
    line = [sys.executable, "-I", "-S", landlock.__file__]
    line += ["--network"] if network else []
    for path in granted:
        line += ["--write", str(path)]
    return line
