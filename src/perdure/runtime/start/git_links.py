"""Which git folder belongs to a working tree, accepted only when both sides agree.

A file `.git` can name any folder of this machine, and so can a `commondir`, `core.worktree` or symbolic link in a git
folder. A repository from elsewhere could make git read, commit and list worktrees in another repository. So a git
folder counts only if it lies in the working tree itself, or if the other side names this working tree:

    worktree     REPOSITORY/worktrees/NAME/gitdir names the file `.git`
    submodule    the git folder lies in `modules` of the repository around the working tree
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

LONGEST = 8192  # bytes of a file that names a folder
_GIT_WRITES = (
    *("HEAD", "config", "config.worktree", "index", "logs", "modules", "objects", "packed-refs", "refs", "refs/heads"),
    "worktrees",
)


class GitFolders(msgspec.Struct, frozen=True):
    """Git's folder of one working tree, and the one that all working trees of the repository share."""

    own: Path
    common: Path


def find_git_folders(top: Path) -> GitFolders | None:
    """The git folders of a working tree; None if it has none, or if they belong to another working tree."""
    link = top / ".git"
    try:
        if link.is_symlink():
            return None
        if link.is_dir():
            real = Path(os.path.realpath(link))
            found = None if os.path.lexists(real / "commondir") else GitFolders(real, real)
        else:
            own = _read_link(link, "gitdir: ")
            found = _worktree(own, link) if os.path.lexists(own / "commondir") else _submodule(own, top)
    except (OSError, ValueError):
        return None
    return None if found is None or _leads_out(found) else found


def top_of(folder: Path) -> Path | None:
    """The nearest folder at or above this one that holds a `.git`."""
    return next((one for one in (folder, *folder.parents) if os.path.lexists(one / ".git")), None)


def _worktree(own: Path, link: Path) -> GitFolders | None:
    common = _read_link(own / "commondir")
    if own.parent != common / "worktrees" or _read_link(own / "gitdir") != Path(os.path.realpath(link)):
        return None
    return GitFolders(own, common)


def _submodule(own: Path, top: Path) -> GitFolders | None:
    above = top_of(top.parent)
    if above is None or above == top or (around := find_git_folders(above)) is None:
        return None
    modules = {around.own / "modules", around.common / "modules"}
    return GitFolders(own, own) if own.is_dir() and modules & set(own.parents) else None


def _read_link(file: Path, prefix: str = "") -> Path:
    """The folder that a file of git names, relative to the folder of that file."""
    with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
        text = os.fsdecode(opened.read(LONGEST)).strip()
    if not text.startswith(prefix):
        raise ValueError(f"{file} names no folder")
    return Path(os.path.realpath(file.parent / text.removeprefix(prefix)))


def _leads_out(found: GitFolders) -> bool:
    """Whether a path that git writes there is a link to somewhere else."""
    for folder in {found.own, found.common}:
        for path in (folder / name for name in _GIT_WRITES):
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(found.common):
                return True
    return False
