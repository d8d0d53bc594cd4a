"""Checks out a snapshot: makes a folder hold the files that it held in the snapshot.

    keep       take a snapshot of what the folder holds now, with every file that is about to be overwritten
    check      nothing unsaved is in the way; otherwise refuse before anything is touched
    stage      write every new content, whole and synced, to one folder inside the folder
    move       remove what the snapshot does not hold, then rename each new file to its path
    sync       sync the folders; then remove the staging folder

A crash before `move` leaves the folder as it was; a crash within it leaves every file either as before or as in the
snapshot. The same checkout again has the same result, because it compares the folder as it finds it. Nothing is lost,
because the first snapshot holds what was there. Ignored files are left alone, by the rules before and by those in the
snapshot.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from perdure.agent.files.index import is_unfilled
from perdure.agent.files.object_store import STAGING, GitView, LockedStore, sync_all
from perdure.agent.files.objects import read_blobs
from perdure.agent.files.safe_files import folder as open_folder
from perdure.durable import sync_folder
from perdure.errors import Conflict, Damaged

if TYPE_CHECKING:
    from perdure.agent.files.snapshot import Snapshot, Snapshots

LINK, NESTED, NOTHING = "120000", "160000", "000000"
FEW = 64  # more than this are synced together


class CheckoutResult(msgspec.Struct, frozen=True):
    """What a checkout did. `before` is what the folder held; `ignored` files stayed because of the snapshot's rules."""

    before: Snapshot
    after: Snapshot
    written: tuple[str, ...]
    removed: tuple[str, ...]
    ignored: tuple[str, ...] = ()


class Change(msgspec.Struct, frozen=True):
    """One path that differs between two trees."""

    path: str
    old_mode: str
    mode: str
    old: str
    new: str

    @property
    def is_written(self) -> bool:
        return self.mode not in (NOTHING, NESTED)

    @property
    def is_removed(self) -> bool:
        """A nested repository is never removed: its content is in no snapshot."""
        return not self.is_written and self.old_mode not in (NOTHING, NESTED)


def changes_between(store: LockedStore, a: str, b: str) -> list[Change]:
    """The differences from one tree to another, file by file."""
    out = store.out("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", a, b)
    fields = out.split(b"\0")[:-1]
    found = []
    for about, path in zip(fields[::2], fields[1::2], strict=True):
        old_mode, mode, old, new, _ = about[1:].decode().split(" ")
        found.append(Change(_check_path(os.fsdecode(path)), old_mode, mode, old, new))
    return found


def _check_path(path: str) -> str:
    """Refuse a path that no ordinary folder can hold."""
    if any(part in ("", ".", "..") or part.lower() == ".git" for part in path.split("/")):
        raise Damaged(f"The snapshot holds an impossible path: {path[:100]!r}.")
    return path


def check_out(store: LockedStore, snapshots: Snapshots, tree: str) -> CheckoutResult:
    """Make the folder of `snapshots` hold what the tree holds."""
    view = snapshots.view
    before = snapshots.take_locked(store, f"before the checkout of {tree[:12]}")
    changes = changes_between(store, before.tree, tree)
    hidden = [one.path for one in changes if one.is_written and one.old_mode == NOTHING and _is_file(view, one.path)]
    if hidden:  # ignored now and not in the snapshot: they are about to be overwritten, so they are saved
        before = snapshots.take_locked(store, f"before the checkout of {tree[:12]}", extra=hidden)
        changes = changes_between(store, before.tree, tree)
    ignored = ignored_by_snapshot(store, view, tree, changes)
    written = [one for one in changes if one.is_written]
    removed = [one.path for one in changes if one.is_removed and one.path not in ignored]
    _refuse_obstacles(view.folder, written, set(removed))
    if written or removed:
        staged = _stage(store, view.folder, written)
        _move(view.folder, staged, removed)
    clear_staging(view.folder)
    unfilled = {one.path: one.new for one in changes if one.mode == NESTED and _unfilled(view.folder / one.path)}
    after = snapshots.take_locked(store, f"after the checkout of {tree[:12]}", unfilled=unfilled)
    paths = tuple(one.path for one in written)
    return CheckoutResult(before, after, paths, tuple(removed), tuple(sorted(ignored)))


def clear_staging(folder: Path) -> None:
    """Remove what an interrupted checkout left behind."""
    if os.path.lexists(target := folder / STAGING):
        shutil.rmtree(target)


def _unfilled(target: Path) -> bool:
    """Leave an empty folder for a nested repository, as git does; False when something is there."""
    if not os.path.lexists(target):
        target.mkdir(parents=True)
    return is_unfilled(target)


def _is_file(view: GitView, path: str) -> bool:
    target = view.folder / path
    return target.is_symlink() or target.is_file()


def ignored_by_snapshot(store: LockedStore, view: GitView, tree: str, changes: Iterable[Change]) -> set[str]:
    """Of the files to remove, those that the rules of the snapshot ignore: they may have existed at that time."""
    removed = [one.path for one in changes if one.is_removed]
    if not removed or not any(os.path.basename(one.path) == ".gitignore" for one in changes):
        return set()
    with TemporaryDirectory(prefix="rules-", dir=store.path.parent) as target:
        top = Path(target)
        for depth in range(view.prefix.count("/")):
            above = Path(*view.prefix.split("/")[:depth])
            if (rules := view.top / above / ".gitignore").is_file():
                (top / above).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(rules, top / above / ".gitignore")
        then = msgspec.structs.replace(view, top=top, folder=top / view.prefix, index=top / "no-index")
        then.folder.mkdir(parents=True, exist_ok=True)
        out = store.out("ls-tree", "-r", "-z", "--full-tree", tree)
        rules_then = {}
        for about, _, path in (entry.partition(b"\t") for entry in out.split(b"\0") if entry):
            if os.path.basename(path) == b".gitignore" and about.startswith(b"100"):
                rules_then[_check_path(os.fsdecode(path))] = about.split(b" ")[2].decode()
        for name, content in zip(rules_then, read_blobs(store, rules_then.values()), strict=True):
            (then.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (then.folder / name).write_bytes(b"".join(content))
        # `./` because a `:` or `*` at the start has a meaning for git
        stdin = b"".join(b"./" + os.fsencode(path) + b"\0" for path in removed)
        answer = store.git("check-ignore", "-z", "--no-index", "--stdin", view=then, stdin=stdin, answers=(0, 1))[1]
    return {os.fsdecode(path.removeprefix(b"./")) for path in answer.split(b"\0") if path}


def _refuse_obstacles(folder: Path, written: Iterable[Change], removed: set[str]) -> None:
    """Refuse when an unsaved file would have to go, or a link would lead out of the folder."""
    for change in written:
        if change.old_mode == NESTED:
            raise _obstacle(change.path)
        for depth in range(1, change.path.count("/") + 1):
            above = "/".join(change.path.split("/")[:depth])
            target = folder / above
            if (target.is_symlink() or (target.exists() and not target.is_dir())) and above not in removed:
                raise _obstacle(above)
            if os.path.lexists(target / ".git") and not target.is_symlink():
                raise _obstacle(above)
        target = folder / change.path
        if target.is_dir() and not target.is_symlink():
            for root, folders, files in os.walk(target):
                links = [one for one in folders if os.path.islink(os.path.join(root, one))]
                for name in (*files, *links):
                    if (path := os.path.relpath(os.path.join(root, name), folder)) not in removed:
                        raise _obstacle(path)


def _obstacle(path: str) -> Conflict:
    return Conflict(
        f"{path} is in no snapshot and is in the way of a file; nothing was changed.",
        hint="Move it away and try again.",
    )


def _stage(store: LockedStore, folder: Path, written: list[Change]) -> dict[str, Path]:
    """Write every new content, whole and synced; returns the paths and where their content is staged."""
    (folder / STAGING).mkdir()
    staged = {}
    for number, (change, chunks) in enumerate(
        zip(written, read_blobs(store, [one.new for one in written]), strict=True)
    ):
        target = staged[change.path] = folder / STAGING / str(number)
        if change.mode == LINK:
            os.symlink(b"".join(chunks), os.fsencode(target))
            continue
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o777), "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fchmod(file.fileno(), permissions(os.fstat(file.fileno()), folder / change.path, change.mode))
            if len(written) <= FEW:
                os.fsync(file.fileno())
    if len(written) > FEW:
        sync_all(folder)
    return staged


def permissions(made: os.stat_result, target: Path, mode: str) -> int:
    """The permissions of the file that is replaced, or of a new file here; executable as in the snapshot."""
    try:
        old = target.lstat()
    except OSError:
        old = made
    bits = (old if stat.S_ISREG(old.st_mode) else made).st_mode & 0o777
    return bits | ((bits & 0o444) >> 2) if mode == "100755" else bits & 0o666


def _move(folder: Path, staged: dict[str, Path], removed: list[str]) -> None:
    touched = set()
    for path in removed:
        (folder / path).unlink(missing_ok=True)
        touched.add((folder / path).parent)
    for path, waiting in staged.items():
        target = folder / path
        if target.is_dir() and not target.is_symlink():
            _remove_empty(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        waiting.replace(target)
        touched.add(target.parent)
    for path in removed:
        remove_emptied(folder, (folder / path).parent)
    there = [parent for parent in touched if parent.is_dir()]
    if len(there) > FEW:
        sync_all(folder)
    else:
        for parent in there:
            sync_folder(parent)


def _remove_empty(target: Path) -> None:
    """Remove a folder that holds only folders; anything else was refused before."""
    for root, _, _ in os.walk(target, topdown=False):
        os.rmdir(root)


def remove_emptied(folder: Path, parent: Path) -> None:
    """Remove the folders that a removal left empty, up to the folder itself; a link on the way is not followed."""
    while parent != folder and folder in parent.parents:
        try:
            with open_folder(parent.parent, root=folder) as above:
                os.rmdir(parent.name, dir_fd=above)
        except OSError:
            return
        parent = parent.parent
