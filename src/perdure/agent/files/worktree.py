"""A folder for every branch of a session: a git worktree, or a plain folder outside git.

    clear      remove what an interrupted addition left: the folder, and its entry in the repository
    intend     record what is about to be made, so that a part of it can be found and removed
    add        `git worktree add --detach`: the folder, its own index and head; no branch, no hook
    fill       check out the snapshot on top, so that the branch starts with exactly those files
    record     record that it is ready; from here on the worktree exists

A crash before the last line leaves a folder that is not in use; the same addition again starts over. Adding a worktree
that exists never touches it.

In the user's repository this writes `.git/worktrees/NAME` and nothing else, and removing the worktree deletes that
again. Commits in the worktree go to the repository's objects, as with every worktree; a branch that names them is made
only by `publish`, when a person asks for it. Submodules are not filled, and no filter is run:
the files come from the snapshot, byte for byte. Without a snapshot they are the committed files: for a file in Git LFS,
its pointer.

The folder of a branch that has ended is removed when nothing in it would be lost, and otherwise left where it is. What
counts as a loss: files that the branch's last snapshot does not hold, what no snapshot can hold (a nested repository, a
file that is too large), and commits that no branch of the user names. Ignored files are deleted with the folder, as
with `git worktree remove`. Removal begins with a record: if it is interrupted, the rest is never treated as the
branch's files.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

import msgspec

from perdure.agent.files.index import is_unfilled
from perdure.agent.files.object_store import lock_folder, sync_all
from perdure.agent.files.prune import size_of
from perdure.agent.files.snapshot import Snapshots
from perdure.agent.git.command_line import SAFE, Repository, disable_programs, find, run
from perdure.durable import make_folder, write_whole
from perdure.errors import Conflict, NotFound
from perdure.ids import check_name, digest

LOCK = "worktrees.lock"


class Worktree(msgspec.Struct, frozen=True):
    """The record of a branch's folder: `folder` corresponds to the branched folder, `git_dir` lists the worktree."""

    branch: str
    commit: str | None
    snapshot: str | None
    root: bytes
    folder: bytes
    git_dir: bytes | None
    is_ready: bool = False


def add(repository: Path, home: Path, branch: str, *, commit: str | None = None, snapshot: str | None = None) -> Path:
    """Give a branch its folder, starting at a commit, with the files of a snapshot, or both; returns the folder.

    `repository` is the folder that is branched, `home` where its snapshots are. Without a commit, the checked-out
    commit is used; before the first commit and outside git the folder is a plain one.
    """
    check_name("A branch", branch)
    parent = Snapshots(repository, home)
    with lock_folder(parent.home, LOCK) as lock:
        record = _record(parent.home, branch)
        if (there := _read(record)) is not None and there.is_ready:
            return _check_existing(there, commit, snapshot)
        theirs = find(parent.folder)
        start = commit or (parent.head() if theirs else None)
        root = _root(parent.home, branch)
        tracked = theirs if start is not None else None
        folder = root / tracked.prefix if tracked else root
        git_dir = os.fsencode(_common(tracked.git_dir)) if tracked else None
        made = Worktree(branch, commit, snapshot, os.fsencode(root), os.fsencode(folder), git_dir)
        _clear(there or made)
        make_folder(record.parent)
        write_whole(record, msgspec.json.encode(made))
        if tracked is not None and start is not None:
            _check_out(tracked, root, start, lock)
        folder.mkdir(parents=True, exist_ok=True)
        if snapshot is not None:
            parent.check_out(snapshot, folder)
        sync_all(parent.home)
        write_whole(record, msgspec.json.encode(msgspec.structs.replace(made, is_ready=True)))
        return folder


def remove(home: Path, branch: str) -> None:
    """Remove a branch's folder with everything in it. Does nothing if there is none."""
    home = home.resolve()
    with lock_folder(home, LOCK):
        record = _record(home, branch)
        if (there := _read(record)) is not None:
            write_whole(record, msgspec.json.encode(msgspec.structs.replace(there, is_ready=False)))
            _clear(there)
            record.unlink()  # last: until then, another removal finds what is left


def list_worktrees(home: Path) -> list[Worktree]:
    """Every worktree that exists or was begun here."""
    found = [_read(one) for one in sorted((home.resolve() / "worktrees").glob("perdure-*.json"))]
    return [one for one in found if one is not None]


def worktree_path(home: Path, branch: str) -> Path | None:
    """The folder of a branch, if it has one here."""
    there = _read(_record(home.resolve(), branch))
    return Path(os.fsdecode(there.folder)) if there and there.is_ready else None


def publish(home: Path, branch: str, name: str) -> str:
    """Make the branch `perdure/NAME` in the user's repository point at the last commit of the worktree.

    It is only ever moved forward. Changes that were not committed are not in it.
    """
    check_name("A branch", name)
    there = _read(_record(home.resolve(), branch))
    if there is None or there.git_dir is None or not there.is_ready:
        raise NotFound(f"Branch {branch} has no git worktree here.")
    root, ref = Path(os.fsdecode(there.root)), f"refs/heads/perdure/{name}"
    run("check-ref-format", ref, cwd=root)
    head = run("rev-parse", "--verify", "HEAD", cwd=root, settings=SAFE)[1].decode().strip()
    code, out = run("rev-parse", "--verify", "--quiet", ref, cwd=root, answers=(0, 1), settings=SAFE)
    now = out.decode().strip() if code == 0 else ""
    if now and run("merge-base", "--is-ancestor", now, head, cwd=root, answers=(0, 1), settings=SAFE)[0]:
        raise Conflict(f"perdure/{name} has commits that branch {branch} does not have.")
    if now != head:
        run("update-ref", ref, head, now or "0" * len(head), cwd=root, settings=SAFE)
    return head


def _check_existing(there: Worktree, commit: str | None, snapshot: str | None) -> Path:
    if (there.commit, there.snapshot) != (commit, snapshot):
        raise Conflict(f"Branch {there.branch} has a folder already, with another start.")
    if not (folder := Path(os.fsdecode(there.folder))).is_dir():
        raise NotFound(
            f"The folder of branch {there.branch} is gone.",
            hint="Remove its worktree, add it again, and check out its snapshot.",
        )
    return folder


def _check_out(theirs: Repository, root: Path, commit: str, lock: int) -> None:
    env = {"GIT_DIR": str(theirs.git_dir), "GIT_WORK_TREE": str(theirs.top)} | disable_programs(theirs)
    arguments = ("worktree", "add", "--quiet", "--force", "--detach", str(root), commit)
    run(*arguments, cwd=theirs.top, env=env, keep=lock)


def _clear(made: Worktree) -> None:
    """Remove a complete or partial worktree; in the repository's list, only the entries with our own, unique name."""
    root = Path(os.fsdecode(made.root))
    if made.git_dir is not None:
        entries = Path(os.fsdecode(made.git_dir)) / "worktrees"
        for entry in entries.glob(f"{root.name}*"):
            if re.fullmatch(r"\d*", entry.name.removeprefix(root.name)):
                shutil.rmtree(entry)
        with suppress(OSError):
            entries.rmdir()  # as git does with the last one
    if root.is_dir():
        shutil.rmtree(root)


def _common(git_dir: Path) -> Path:
    """The git dir that the worktrees of a repository share; a worktree's own git dir is deleted with it."""
    pointer = git_dir / "commondir"
    return Path(os.path.normpath(git_dir / pointer.read_text().strip())) if pointer.is_file() else git_dir


def _root(home: Path, branch: str) -> Path:
    """Named by store and branch, so that no two stores use one entry of a repository."""
    words = re.sub("[^A-Za-z0-9]+", "-", branch)[:40].strip("-")
    return home / "worktrees" / f"perdure-{words}-{digest(os.fsencode(home) + b'/' + branch.encode())[:12]}"


def _record(home: Path, branch: str) -> Path:
    root = _root(home, branch)
    return root.with_name(f"{root.name}.json")


def _read(record: Path) -> Worktree | None:
    try:
        return msgspec.json.decode(record.read_bytes(), type=Worktree)
    except FileNotFoundError:
        return None


class FolderRemoval(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result for one branch's folder. `kept` says why the folder still exists."""

    branch: str
    folder: str
    bytes: int = 0
    kept: str | None = None
    is_git: bool = False


def clear(home: Path, there: Worktree, last: str | None, *, plan: bool = False) -> FolderRemoval:
    """Remove the folder of a branch that has ended, unless something would be lost; `last` is its last snapshot."""
    folder, root = Path(os.fsdecode(there.folder)), Path(os.fsdecode(there.root))
    kept = _loss(home, there, folder, last) if there.is_ready and folder.is_dir() else None
    freed = size_of(root) if kept is None else 0
    if kept is None and not plan:
        remove(home, there.branch)
    return FolderRemoval(there.branch, str(folder), freed, kept, there.git_dir is not None)


def _loss(home: Path, there: Worktree, folder: Path, last: str | None) -> str | None:
    """What would be lost with the folder, for a person; None if nothing would."""
    shots = Snapshots(folder, home)
    taken = shots.take("before its folder is removed")
    if not _is_saved(shots, last, taken.tree):
        return "it holds changes that its last snapshot does not"
    if filled := [one.path for one in taken.left_out if not is_unfilled(folder / one.path)]:
        return f"{filled[0]} is in no snapshot"
    return (
        "it holds commits that no branch names"
        if there.git_dir is not None and _has_own_commits(there, folder)
        else None
    )


def _is_saved(shots: Snapshots, last: str | None, tree: str) -> bool:
    try:
        with shots.lock() as store:
            return last is not None and store.tree(last) == tree
    except NotFound:
        return False


def _has_own_commits(there: Worktree, folder: Path) -> bool:
    """Whether the worktree's commit is on no branch and is not the one that it started from."""
    code, out = run("rev-parse", "--verify", "--quiet", "HEAD", cwd=folder, answers=(0, 1, 128), settings=SAFE)
    head = out.decode().strip()
    if code or head == there.commit:
        return False
    return not run("for-each-ref", "--count=1", f"--contains={head}", cwd=folder, settings=SAFE)[1]
