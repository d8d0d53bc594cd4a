"""The programs that Perdure starts itself, found by absolute path and never in a folder that an agent may write.

A virtual environment or a `bin` folder inside a repository is often on the PATH. The agent may have written what lies
there, so it is excluded from every search and from the PATH of our own helpers.
"""

from __future__ import annotations

import os
import shutil
import sys
from functools import cache
from pathlib import Path

import perdure


def search_path(*folders: Path) -> str:
    """The PATH without its relative entries and without those in one of the folders."""
    return os.pathsep.join(
        entry
        for entry in os.get_exec_path()
        if os.path.isabs(entry) and not any(_within(entry, folder) for folder in folders)
    )


def executable(name: str, *folders: Path) -> str | None:
    """The path of a program outside these folders; None if it is not installed there."""
    return _find(name, search_path(*folders), folders)


@cache
def _find(name: str, path: str, folders: tuple[Path, ...]) -> str | None:
    found = shutil.which(name, path=path)
    if found is None or any(_within(os.path.realpath(found), folder) for folder in folders):
        return None
    return found


@cache
def own_code(root: Path) -> tuple[Path, ...]:
    """What lies in a folder and is run by Perdure itself: its interpreter's environment and its own package."""
    own = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable), Path(perdure.__file__).parent]
    inside = {path.resolve() for path in own if _within(str(path), root) or _within(os.path.realpath(path), root)}
    return tuple(sorted(path for path in inside if path != root.resolve() and path.exists()))


def _within(entry: str, folder: Path) -> bool:
    real, top = os.path.realpath(entry), os.path.realpath(folder)
    return real == top or real.startswith(top.rstrip("/") + "/")
