"""The folder of a branch that has ended: removed when nothing in it would be lost, and otherwise left where it is.

Lost would be files that the branch's last snapshot does not hold, what no snapshot can hold (a repository inside, a
file that is too large), and commits that no branch of the person's names. Ignored files go with the folder, as with
`git worktree remove`. Removing begins with a record that says so: killed half-way, nobody takes what is left for files.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from perdure.agent.gitdir import SAFE, run
from perdure.agent.indexing import is_unfilled
from perdure.agent.pruning import size_of
from perdure.agent.snapshot import Snapshots
from perdure.agent.worktree import Worktree, remove
from perdure.errors import NotFound


class Cleared(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a branch's folder. `kept` says why it is still there."""

    branch: str
    folder: str
    bytes: int = 0
    kept: str | None = None
    is_git: bool = False


def clear(home: Path, there: Worktree, last: str | None, *, plan: bool = False) -> Cleared:
    """Remove the folder of a branch that has ended, unless something would be lost; `last` is its last snapshot."""
    folder, root = Path(os.fsdecode(there.folder)), Path(os.fsdecode(there.root))
    kept = _lost(home, there, folder, last) if there.is_ready and folder.is_dir() else None
    freed = size_of(root) if kept is None else 0
    if kept is None and not plan:
        remove(home, there.branch)
    return Cleared(there.branch, str(folder), freed, kept, there.git_dir is not None)


def _lost(home: Path, there: Worktree, folder: Path, last: str | None) -> str | None:
    """What would be lost with the folder, for a person; None if nothing would."""
    shots = Snapshots(folder, home)
    taken = shots.take("before its folder is removed")
    if not _is_kept(shots, last, taken.tree):
        return "it holds changes that its last snapshot does not"
    if filled := [one.path for one in taken.left_out if not is_unfilled(folder / one.path)]:
        return f"{filled[0]} is in no snapshot"
    return "it holds commits that no branch names" if there.git_dir is not None and _is_alone(there, folder) else None


def _is_kept(shots: Snapshots, last: str | None, tree: str) -> bool:
    try:
        with shots.held() as held:
            return last is not None and held.tree(last) == tree
    except NotFound:
        return False


def _is_alone(there: Worktree, folder: Path) -> bool:
    """Whether the worktree's commit is no ref's, and not where it began."""
    code, out = run("rev-parse", "--verify", "--quiet", "HEAD", cwd=folder, answers=(0, 1, 128), settings=SAFE)
    head = out.decode().strip()
    if code or head == there.commit:
        return False
    return not run("for-each-ref", "--count=1", f"--contains={head}", cwd=folder, settings=SAFE)[1]
