"""Merges what a branch changed into the folder that it was forked from.

    merge      three trees, file by file: where the branch began, what the folder holds, where the branch ended
    check      the folder still holds what the caller saw, or part of this same merge already
    write      check out the result into the folder, each file whole

Nothing is written when there are conflicts, unless the caller asks for files with conflict markers. A crash within the
last step leaves every file either as it was or as merged; the same merge again detects that and completes. The user's
index, branches and commits are not touched: the user finds changed files and decides what to do with them.
"""

from __future__ import annotations

import os
import re

import msgspec

from perdure.agent.files import checkout
from perdure.agent.files.checkout import changes_between
from perdure.agent.files.object_store import LockedStore
from perdure.agent.files.snapshot import Snapshot, Snapshots, commit
from perdure.errors import Conflict, NotFound

PARENT, BRANCH = "folder", "branch"  # the names of the sides in conflict markers


class MergeConflict(msgspec.Struct, frozen=True):
    """A path that a person has to decide on. `text` is the file with its conflict markers, if it has any."""

    path: str
    kind: str
    text: str | None = None


class FileMerge(msgspec.Struct, frozen=True):
    """The result of a merge. `tree` is the merged tree, with conflict markers when there are conflicts.

    `before` and `after` are what the folder held before and after the result was written; None when nothing was
    written.
    """

    tree: str
    conflicts: tuple[MergeConflict, ...] = ()
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    before: Snapshot | None = None
    after: Snapshot | None = None

    @property
    def is_clean(self) -> bool:
        return not self.conflicts


def merge_into(parent: Snapshots, *, base: str, ours: str, theirs: str, write_conflicts: bool = False) -> FileMerge:
    """Merge a branch into the folder of `parent`. All three are snapshots in its store, by tree or commit.

    `base` is where the branch began, `theirs` where it ended, `ours` what the folder held when the caller read it.
    """
    with parent.lock() as store:
        sides = [store.tree(name) for name in (base, ours, theirs)]
        tree, conflicts = _merge_trees(store, parent, *sides)
        store.sync()
        if conflicts and not write_conflicts:
            return FileMerge(tree, conflicts)
        now = parent.take_locked(store, "before a merge").tree
        _refuse_changed(store, sides[1], now, tree)
        done = checkout.check_out(store, parent, tree)
        changes = changes_between(store, sides[1], tree)  # all of them, though an earlier attempt may have written some
        written = tuple(one.path for one in changes if one.is_written)
        removed = tuple(one.path for one in changes if one.is_removed and one.path not in done.ignored)
        return FileMerge(tree, conflicts, written, removed, done.before, done.after)


def _refuse_changed(store: LockedStore, ours: str, now: str, tree: str) -> None:
    """Every difference from what the caller saw must be the work of this merge."""
    wanted = {(one.path, one.mode, one.new) for one in changes_between(store, ours, tree)}
    for one in changes_between(store, ours, now):
        if (one.path, one.mode, one.new) not in wanted:
            raise Conflict(f"{one.path} has changed since the merge was prepared; nothing was written.")


def _merge_trees(
    store: LockedStore, parent: Snapshots, base: str, ours: str, theirs: str
) -> tuple[str, tuple[MergeConflict, ...]]:
    root = commit(store, base, "base")
    heads = {PARENT: commit(store, ours, PARENT, root), BRANCH: commit(store, theirs, BRANCH, root)}
    orders = "".join(f"update refs/heads/{name} {head}\n" for name, head in heads.items())
    store.out("update-ref", "--stdin", stdin=orders.encode())
    code, out = store.git(
        "merge-tree", "--write-tree", "-z", "--messages", PARENT, BRANCH, view=parent.view, answers=(0, 1)
    )
    fields = out.split(b"\0")
    tree = fields[0].decode()
    return tree, _conflicts(store, tree, fields[1:]) if code else ()


def _conflicts(store: LockedStore, tree: str, fields: list[bytes]) -> tuple[MergeConflict, ...]:
    """Parse git's output: conflicted entries, an empty field, then messages (a count, paths, a type, a sentence)."""
    end = fields.index(b"")
    entries = dict.fromkeys(os.fsdecode(entry.partition(b"\t")[2]) for entry in fields[:end])
    kinds: dict[str, str] = {}
    rest = iter(fields[end + 1 :])
    for count in rest:
        if not count:
            break
        paths = [os.fsdecode(next(rest)) for _ in range(int(count))]
        kind, _ = next(rest).decode(), next(rest)
        if found := re.fullmatch(r"CONFLICT \((.*)\)", kind):
            for path in paths:
                kinds.setdefault(path, found[1])
    every = {**kinds, **{path: kinds.get(path, "contents") for path in entries}}
    return tuple(MergeConflict(path, kind, _text(store, tree, path)) for path, kind in sorted(every.items()))


def _text(store: LockedStore, tree: str, path: str) -> str | None:
    try:
        code, out = store.git("cat-file", "blob", f"{tree}:{path}", answers=(0, 128))
        return out.decode() if code == 0 else None
    except (UnicodeDecodeError, NotFound):
        return None
