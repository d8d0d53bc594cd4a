"""Updates our git index from a folder: new, changed and deleted files, and the paths left out with the reason.

Git lists the differences. Each of them is checked once more here, because git gives up on the whole folder for one path
that it cannot read. Ignored files are left alone unless the user's own index tracks them. A path that became ignored
leaves our index; its file stays.

Left out, and reported: a nested repository (its commit is recorded, its files are not), a file that is too large or
cannot be read, a name that git refuses. An entry that is left out also leaves the index: otherwise the snapshot would
hold old content in place of new.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from perdure.agent.files.object_store import NO_SYNC, GitView, LockedStore
from perdure.agent.git.command_line import SAFE, Repository, run

LARGEST = 100 << 20  # bytes of one file
NESTED = "a repository of its own"
LARGE = "too large"
UNREADABLE = "not readable"
REFUSED = "a name that git refuses"


class OmittedPath(msgspec.Struct, frozen=True):
    """A path that a snapshot does not hold, and why."""

    path: str
    why: str


class IndexUpdate(msgspec.Struct, frozen=True):
    """The result of an update of the index. `links` are the nested repositories that it records."""

    changed: bool
    links: frozenset[str]
    left_out: tuple[OmittedPath, ...]


class _PathSorter:
    """Sorts the listed paths by what has to be done with each."""

    def __init__(self, folder: Path, largest: int) -> None:
        self.folder = folder
        self.largest = largest
        self.put: list[str] = []
        self.gone: list[str] = []
        self.links: dict[str, str] = {}
        self.left_out: list[OmittedPath] = []
        self._real: dict[str, bool] = {"": True}

    def add(self, path: str, *, tracked: bool) -> None:
        why = self._reason(path.rstrip("/"))
        if why is None:
            self.put.append(path)
        elif why == NESTED:
            self._nested(path.rstrip("/"))
        else:
            if tracked:
                self.gone.append(path)
            if why:
                self.left_out.append(OmittedPath(path, why))

    def _reason(self, path: str) -> str | None:
        """Why the path cannot be added to the index: None when it can, empty when there is nothing to add."""
        if any(part.lower() == ".git" for part in path.split("/")):
            return REFUSED
        full_path = os.path.join(self.folder, path)
        if not self._is_real(os.path.dirname(path)):
            return ""
        try:
            found = os.lstat(full_path)
        except OSError:
            return ""
        if stat.S_ISLNK(found.st_mode):
            return None
        if stat.S_ISDIR(found.st_mode):
            return NESTED if os.path.lexists(os.path.join(full_path, ".git")) else ""
        if not stat.S_ISREG(found.st_mode):
            return ""
        if found.st_size > self.largest:
            return LARGE
        return None if os.access(full_path, os.R_OK) else UNREADABLE

    def _is_real(self, parent: str) -> bool:
        """Whether a path is a folder that is not reached through a link."""
        if parent not in self._real:
            full_path = os.path.join(self.folder, parent)
            here = os.path.isdir(full_path) and not os.path.islink(full_path)
            self._real[parent] = here and self._is_real(os.path.dirname(parent))
        return self._real[parent]

    def _nested(self, path: str) -> None:
        words = ("rev-parse", "--verify", "--quiet", "HEAD")
        code, out = run(*words, cwd=self.folder / path, answers=(0, 1, 128), settings=SAFE)
        if code == 0:
            self.links[path] = out.decode().strip()
        else:
            self.gone.append(path)
            self.left_out.append(OmittedPath(path, NESTED))


def refresh(
    store: LockedStore,
    view: GitView,
    repository: Repository | None,
    links: Iterable[str],
    *,
    new_rules: bool,
    extra: Iterable[str] = (),
    unfilled: Mapping[str, str] | None = None,
    largest: int = LARGEST,
) -> IndexUpdate:
    """Update the index. `links` are the nested repositories that it records; `extra` is added though ignored.

    `unfilled` are nested repositories, by commit, whose folders are empty; they stay recorded while they are empty.
    """
    unfilled = unfilled or {}
    known = frozenset(links) | unfilled.keys()
    lost = {link for link in known if not _is_nested(view.folder / link)}
    _replace(store, view, dict.fromkeys(lost) | {path: name for path, name in unfilled.items() if path not in lost})
    listed = _list_files(store, view, "-o", "-m", "-d", "-t")
    tracked = {entry[2:]: not entry.startswith("?") for entry in listed}
    dropped: set[str] = set()
    if new_rules or any(os.path.basename(path) == ".gitignore" for path in tracked):
        theirs = set(_tracked_but_ignored(view, repository)) if repository else set()
        dropped = set(_list_files(store, view, "-c", "-i")) - theirs
        tracked |= dict.fromkeys(theirs - tracked.keys(), True)
    tracked |= dict.fromkeys(extra, True)
    found = _PathSorter(view.folder, largest)
    for path, is_tracked in tracked.items():
        if path not in dropped:
            found.add(path, tracked=is_tracked)
    _replace(store, view, dict.fromkeys([*dropped, *found.gone]) | found.links)
    _put(store, view, found.put)
    now = (known - lost - dropped - set(found.gone)) | found.links.keys()
    return IndexUpdate(
        changed=bool(lost or unfilled or dropped or found.gone or found.links or found.put),
        links=now,
        left_out=(*(OmittedPath(link, NESTED) for link in sorted(now)), *found.left_out),
    )


def _is_nested(folder: Path) -> bool:
    return os.path.lexists(folder / ".git") or is_unfilled(folder)


def is_unfilled(full_path: Path) -> bool:
    """Whether a nested repository has an empty folder here, like a submodule in a new worktree."""
    return full_path.is_dir() and not full_path.is_symlink() and not any(full_path.iterdir())


def _list_files(store: LockedStore, view: GitView, *what: str) -> list[str]:
    out = store.out("ls-files", "-z", *what, "--exclude-standard", view=view)
    return [os.fsdecode(entry) for entry in out.split(b"\0") if entry]


def _tracked_but_ignored(view: GitView, repository: Repository) -> list[str]:
    """Files that the user added in spite of the exclude rules, from the user's index, which is only read."""
    _, out = run(
        *("ls-files", "-z", "-c", "-i", "--exclude-standard"),
        cwd=view.folder,
        env={"GIT_DIR": str(repository.git_dir), "GIT_WORK_TREE": str(repository.top)},
        settings=view.settings,
    )
    return [os.fsdecode(entry) for entry in out.split(b"\0") if entry]


def _replace(store: LockedStore, view: GitView, entries: Mapping[str, str | None]) -> None:
    """Set entries to the commit of a nested repository, or remove them."""
    if entries:
        lines = [
            f"160000 {commit} 0\t{view.prefix}{path}" if commit else f"0 {store.null_name()}\t{view.prefix}{path}"
            for path, commit in entries.items()
        ]
        stdin = b"".join(os.fsencode(line) + b"\0" for line in lines)
        store.git("update-index", "-z", "--add", "--replace", "--index-info", view=view, stdin=stdin, settings=NO_SYNC)


def _put(store: LockedStore, view: GitView, paths: list[str]) -> None:
    if paths:
        stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
        words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        store.git(*words, view=view, stdin=stdin, settings=NO_SYNC, borrow=True)
