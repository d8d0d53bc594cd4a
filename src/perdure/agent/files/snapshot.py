"""Snapshots of a folder: every file that is not ignored, stored in a git dir of our own.

    index      update our index from the folder; git writes each new content
    tree       write the tree
    own        copy objects that were borrowed from the user's repository
    commit     commit it with a message; the same files and message are the same commit
    sync       all of it, together
    record     write the record of the folder's last snapshot, whole or not at all

A crash before the last line leaves objects that nothing names and an index that may be ahead of the record; the next
snapshot continues from there and has the same result. A damaged index is deleted: it is a cache of the folder.

The user's repository is never written to, and no snapshot needs anything in it once it is made. Not included: ignored
files, empty folders, owners and times, permissions other than the executable bit, the content of nested repositories
(submodules too), files above `LARGEST`. `left_out` names the last two.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from perdure.agent.files import checkout, prune
from perdure.agent.files.index import LARGEST, IndexUpdate, OmittedPath, refresh
from perdure.agent.files.object_store import NO_SYNC, GitView, LockedStore, ObjectStore, signature
from perdure.agent.files.objects import changed_objects, copy_borrowed
from perdure.agent.git.command_line import SAFE, Repository, find, global_excludes, run
from perdure.agent.tools.result import short
from perdure.durable import FULL, write_whole
from perdure.errors import ConfigError, NotFound, StoreError, StoreFull, StoreUnavailable
from perdure.ids import check_text, digest

OUTSIDE = (
    "The folder is not in a git repository: a branch gets a plain folder and no commits, "
    "and the first snapshot copies every file."
)


MAX_LISTED = 50  # paths that a record of a snapshot lists


class Snapshot(msgspec.Struct, frozen=True):
    """What a folder held. `files_changed` counts against the previous snapshot; in the first one it is every file."""

    tree: str
    commit: str
    files_changed: int = 0
    left_out: tuple[OmittedPath, ...] = ()

    @property
    def incomplete(self) -> tuple[str, ...]:
        """The paths that are in the folder and not in the snapshot, though not ignored."""
        return tuple(one.path for one in self.left_out)

    @property
    def not_kept(self) -> list[str]:
        """The same as text, each with the reason, at most `MAX_LISTED` of them."""
        listed = [f"{short(one.path)} ({one.why})" for one in self.left_out[:MAX_LISTED]]
        return listed if len(self.left_out) <= MAX_LISTED else [*listed, f"and {len(self.left_out) - MAX_LISTED} more"]


class SnapshotFile(msgspec.Struct, frozen=True):
    """A file of a snapshot: its mode and object name in git."""

    path: str
    mode: str
    object: str


class SnapshotRecord(msgspec.Struct, frozen=True):
    """The last snapshot of a folder. `index` and `rules` show whether the index and the rules changed since."""

    folder: bytes
    tree: str
    commit: str
    links: list[bytes]
    index: list[int]
    rules: list[list[int]]


class Snapshots:
    """The snapshots of one folder. Several folders, such as the worktrees of one repository, may share a store."""

    def __init__(self, folder: Path, home: Path, *, largest: int = LARGEST) -> None:
        self.folder = folder.resolve()
        self.home = home.resolve()
        self.largest = largest
        if not self.folder.is_dir():
            raise NotFound(f"{folder} is not a folder.")
        if self.home == self.folder or self.folder in self.home.parents:
            raise ConfigError(f"The folder for the snapshots, {home}, is inside the folder that is snapshotted.")
        self._store = ObjectStore(self.home)
        self._located: tuple[Path | None, Repository | None, GitView] | None = None

    @property
    def is_git(self) -> bool:
        """Whether the folder is in a git repository."""
        return self._locate()[0] is not None

    @property
    def missing(self) -> str | None:
        """What is not available here, as a sentence for a person; None when everything is."""
        return None if self.is_git else OUTSIDE

    def head(self) -> str | None:
        """The commit that the user's repository has checked out; None outside git and before the first commit."""
        if not self.is_git:
            return None
        code, out = run("rev-parse", "--verify", "--quiet", "HEAD", cwd=self.folder, answers=(0, 1, 128), settings=SAFE)
        return out.decode().strip() if code == 0 else None

    def take(self, message: str) -> Snapshot:
        """Take a snapshot of the folder. If nothing changed since the last snapshot, that one is returned.

        Of a nested repository, such as a submodule, only its commit is recorded: `left_out` names it.
        """
        check_text("The message of a snapshot", message)
        with self.lock() as store:
            return self.take_locked(store, message)

    def check_out(self, tree: str, into: Path | None = None) -> checkout.CheckoutResult:
        """Make a folder hold the files of a snapshot, given by tree or commit. What it held before is saved first."""
        target = self if into is None else Snapshots(into, self.home, largest=self.largest)
        with target.lock() as store:
            return checkout.check_out(store, target, store.tree(tree))

    def diff(self, a: str, b: str, *, paths: Iterable[str] | None = None, stat: bool = False) -> str:
        """The differences from one snapshot to another, unified and without colours; `stat` only counts lines."""
        shape = ("--stat=100",) if stat else ("--patch",)
        only = [f":(top,literal){path}" for path in paths or ()]
        with self.lock() as store:
            arguments = ("-r", "-M", "--no-color", "--no-ext-diff", "--no-textconv", *shape)
            out = store.out("diff-tree", *arguments, store.tree(a), store.tree(b), "--", *only)
        return out.decode(errors="replace")

    def files(self, tree: str) -> list[SnapshotFile]:
        """Every file of a snapshot, in git's order."""
        with self.lock() as store:
            out = store.out("ls-tree", "-r", "-z", "--full-tree", store.tree(tree))
        entries = (entry.partition(b"\t") for entry in out.split(b"\0") if entry)
        parts = [(about.decode().split(" "), os.fsdecode(path)) for about, _, path in entries]
        return [SnapshotFile(path, mode, name) for (mode, _, name), path in parts]

    def read(self, tree: str, path: str) -> bytes:
        """The content of one file of a snapshot."""
        with self.lock() as store:
            code, out = store.git("cat-file", "blob", f"{store.tree(tree)}:{path}", answers=(0, 128))
        if code:
            raise NotFound(f"{path} is not a file of snapshot {tree[:12]}.")
        return out

    def prune(self, keep: Iterable[str], *, grace: int = 3600, plan_at: float | None = None) -> prune.PruneResult:
        """Delete every snapshot except those named, the last of each folder, and those younger than `grace` seconds.

        With a time, only report what would be deleted then.
        """
        with self.lock() as store:
            if plan_at is not None:
                return prune.plan(store, keep, grace, plan_at)
            return prune.prune(store, keep, grace)

    @contextmanager
    def lock(self) -> Iterator[LockedStore]:
        """Lock the store, for several steps that belong together."""
        try:
            with self._store.lock(self._locate()[0]) as store:
                yield store
        except OSError as error:
            if error.errno in FULL:
                raise StoreFull("The disk is full; not all files were written.") from error
            raise StoreUnavailable(f"The files cannot be read or written: {error}.") from error

    def take_locked(
        self, store: LockedStore, message: str, extra: Iterable[str] = (), unfilled: Mapping[str, str] | None = None
    ) -> Snapshot:
        """Take a snapshot with the store locked; `extra` is included though ignored, `unfilled` though empty."""
        repository, view = self._locate()
        view.index.parent.mkdir(parents=True, exist_ok=True)
        checkout.clear_staging(view.folder)
        update = partial(refresh, extra=tuple(extra), unfilled=unfilled, largest=self.largest)
        try:
            return self._take(store, repository, view, message, update)
        except StoreFull:
            raise
        except StoreError:
            if not view.index.exists():
                raise
            view.index.unlink()  # it may be damaged, or name deleted objects; it can be made again from the folder
            return self._take(store, repository, view, message, update)

    def _take(
        self,
        store: LockedStore,
        repository: Repository | None,
        view: GitView,
        message: str,
        update: Callable[..., IndexUpdate],
    ) -> Snapshot:
        last, rules = self.last(view), _rules(repository, view)
        whole = last is not None and last.index == signature(view.index) and not store.stale
        fresh = not (last is not None and last.rules == rules and view.index.exists())
        links = map(os.fsdecode, last.links) if last and view.index.exists() else ()
        found = update(store, view, repository, links, new_rules=fresh)
        if last is not None and whole and not fresh and not found.changed:
            return Snapshot(last.tree, last.commit, 0, found.left_out)
        tree = _write_tree(store, view)
        if last is not None and tree == last.tree:
            snapshot = Snapshot(tree, last.commit, 0, found.left_out)
        else:
            files, names = changed_objects(store, view, last.tree if last else None, tree)
            copy_borrowed(store, names)
            snapshot = Snapshot(tree, commit(store, tree, message), files, found.left_out)
        store.sync()
        now = [os.fsencode(link) for link in sorted(found.links)]
        record = SnapshotRecord(os.fsencode(view.folder), tree, snapshot.commit, now, signature(view.index), rules)
        write_whole(view.index.with_name("record.json"), msgspec.json.encode(record))
        return snapshot

    def last(self, view: GitView | None = None) -> SnapshotRecord | None:
        """The record of the last snapshot of this folder."""
        path = (view or self._locate()[1]).index.with_name("record.json")
        try:
            return msgspec.json.decode(path.read_bytes(), type=SnapshotRecord)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    @property
    def view(self) -> GitView:
        return self._locate()[1]

    def _locate(self) -> tuple[Repository | None, GitView]:
        """The repository and view of the folder; determined again when a repository appears or disappears."""
        nearest = next((one for one in (self.folder, *self.folder.parents) if os.path.lexists(one / ".git")), None)
        if self._located is None or self._located[0] != nearest:
            self._located = (nearest, *_locate(self.folder, self.home))
        return self._located[1:]


def _locate(folder: Path, home: Path) -> tuple[Repository | None, GitView]:
    repository = find(folder)
    excludes = global_excludes(folder)
    settings = (f"core.excludesFile={excludes}",) if excludes else ()
    top, prefix = folder, ""
    if repository is not None and not _is_ignored(repository, settings):
        top, prefix = repository.top, repository.prefix
    name = digest(os.fsencode(folder) + b"\0" + os.fsencode(prefix))[:24]
    return repository, GitView(folder, top, prefix, home / "folders" / name / "index", settings)


def _is_ignored(repository: Repository, settings: tuple[str, ...]) -> bool:
    """Whether the repository ignores the whole folder; then only the folder's own rules apply."""
    if not repository.prefix:
        return False
    env = {"GIT_DIR": str(repository.git_dir), "GIT_WORK_TREE": str(repository.top)}
    code, _ = run(
        *("check-ignore", "--quiet", "--", f"./{repository.prefix}".rstrip("/")),
        cwd=repository.top,
        env=env,
        settings=settings,
        answers=(0, 1),
    )
    return code == 0


def _write_tree(store: LockedStore, view: GitView) -> str:
    if view.prefix and not store.out("ls-files", "-z", view=view):
        return store.out("mktree").decode().strip()
    prefix = (f"--prefix={view.prefix}",) if view.prefix else ()
    return store.out("write-tree", *prefix, view=view, settings=NO_SYNC, borrow=True).decode().strip()


def commit(store: LockedStore, tree: str, message: str, *parents: str) -> str:
    """Commit a tree with a message; the same input gives the same commit."""
    words = [word for parent in parents for word in ("-p", parent)]
    out = store.out("commit-tree", tree, *words, "-F", "-", stdin=message.encode(), settings=NO_SYNC)
    return out.decode().strip()


def _rules(repository: Repository | None, view: GitView) -> list[list[int]]:
    """A value that changes when the user's index or the exclude rules outside the folder change."""
    above = [view.top.joinpath(*view.prefix.split("/")[:depth]) for depth in range(view.prefix.count("/"))]
    paths = [one / ".gitignore" for one in above]
    paths += [Path(one.partition("=")[2]) for one in view.settings]
    paths += [repository.index, repository.exclude] if repository else []
    return [signature(path) for path in paths]
