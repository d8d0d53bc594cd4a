"""Brings our index in line with a folder: what is new, changed or gone there, and what is left out and why.

Git lists the differences; what each of them is, is looked up here once more, because git gives up on the whole folder
for one path that it cannot take. Ignored files are left alone unless a person's own index tracks them. A path that
became ignored leaves our index; its file stays where it is.

Left out, and told: a repository inside the folder (its commit is recorded, its files are not), a file that is too large
or cannot be read, a name that git refuses. An entry that is left out leaves the index too: an old content that stands
for a new one would be a lie.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from perdure.agent.files.object_store import TOGETHER, Area, Held
from perdure.agent.git.command_line import SAFE, Repository, run

LARGEST = 100 << 20  # bytes of one file
NESTED = "a repository of its own"
LARGE = "too large"
UNREADABLE = "not readable"
REFUSED = "a name that git refuses"


class LeftOut(msgspec.Struct, frozen=True):
    """A path that a snapshot does not hold, and why."""

    path: str
    why: str


class Refreshed(msgspec.Struct, frozen=True):
    """What bringing the index in line came to. `links` are the repositories inside the folder that it records."""

    changed: bool
    links: frozenset[str]
    left_out: tuple[LeftOut, ...]


class _Sorted:
    """The listed paths by what has to be done with each."""

    def __init__(self, folder: Path, largest: int) -> None:
        self.folder = folder
        self.largest = largest
        self.put: list[str] = []
        self.gone: list[str] = []
        self.links: dict[str, str] = {}
        self.left_out: list[LeftOut] = []
        self._real: dict[str, bool] = {"": True}

    def add(self, path: str, *, tracked: bool) -> None:
        why = self._judge(path.rstrip("/"))
        if why is None:
            self.put.append(path)
        elif why == NESTED:
            self._nested(path.rstrip("/"))
        else:
            if tracked:
                self.gone.append(path)
            if why:
                self.left_out.append(LeftOut(path, why))

    def _judge(self, path: str) -> str | None:
        """Why the path cannot be put into the index: None when it can, empty when there is nothing to put."""
        if any(part.lower() == ".git" for part in path.split("/")):
            return REFUSED
        place = os.path.join(self.folder, path)
        if not self._is_real(os.path.dirname(path)):
            return ""
        try:
            found = os.lstat(place)
        except OSError:
            return ""
        if stat.S_ISLNK(found.st_mode):
            return None
        if stat.S_ISDIR(found.st_mode):
            return NESTED if os.path.lexists(os.path.join(place, ".git")) else ""
        if not stat.S_ISREG(found.st_mode):
            return ""
        if found.st_size > self.largest:
            return LARGE
        return None if os.access(place, os.R_OK) else UNREADABLE

    def _is_real(self, parent: str) -> bool:
        """Whether a folder is one, and is not reached through a link."""
        if parent not in self._real:
            place = os.path.join(self.folder, parent)
            here = os.path.isdir(place) and not os.path.islink(place)
            self._real[parent] = here and self._is_real(os.path.dirname(parent))
        return self._real[parent]

    def _nested(self, path: str) -> None:
        words = ("rev-parse", "--verify", "--quiet", "HEAD")
        code, out = run(*words, cwd=self.folder / path, answers=(0, 1, 128), settings=SAFE)
        if code == 0:
            self.links[path] = out.decode().strip()
        else:
            self.gone.append(path)
            self.left_out.append(LeftOut(path, NESTED))


def refresh(
    held: Held,
    area: Area,
    repository: Repository | None,
    links: Iterable[str],
    *,
    new_rules: bool,
    extra: Iterable[str] = (),
    unfilled: Mapping[str, str] | None = None,
    largest: int = LARGEST,
) -> Refreshed:
    """Bring the index in line. `links` is what it recorded of repositories inside; `extra` is put though ignored.

    `unfilled` are repositories inside by their commits whose folders are empty; they stay recorded while they are.
    """
    unfilled = unfilled or {}
    known = frozenset(links) | unfilled.keys()
    places = {link: area.folder / link for link in known}
    lost = {link for link, place in places.items() if not (os.path.lexists(place / ".git") or is_unfilled(place))}
    _replace(held, area, dict.fromkeys(lost) | {path: name for path, name in unfilled.items() if path not in lost})
    listed = _listed(held, area, "-o", "-m", "-d", "-t")
    tracked = {entry[2:]: not entry.startswith("?") for entry in listed}
    dropped: set[str] = set()
    if new_rules or any(os.path.basename(path) == ".gitignore" for path in tracked):
        theirs = set(_tracked_though_ignored(area, repository)) if repository else set()
        dropped = set(_listed(held, area, "-c", "-i")) - theirs
        tracked |= dict.fromkeys(theirs - tracked.keys(), True)
    tracked |= dict.fromkeys(extra, True)
    found = _Sorted(area.folder, largest)
    for path, is_tracked in tracked.items():
        if path not in dropped:
            found.add(path, tracked=is_tracked)
    _replace(held, area, dict.fromkeys([*dropped, *found.gone]) | found.links)
    _put(held, area, found.put)
    now = (known - lost - dropped - set(found.gone)) | found.links.keys()
    return Refreshed(
        changed=bool(lost or unfilled or dropped or found.gone or found.links or found.put),
        links=now,
        left_out=(*(LeftOut(link, NESTED) for link in sorted(now)), *found.left_out),
    )


def is_unfilled(place: Path) -> bool:
    """Whether a repository inside has its folder here and is not in it, as with a submodule in a new worktree."""
    return place.is_dir() and not place.is_symlink() and not any(place.iterdir())


def _listed(held: Held, area: Area, *what: str) -> list[str]:
    out = held.out("ls-files", "-z", *what, "--exclude-standard", area=area)
    return [os.fsdecode(entry) for entry in out.split(b"\0") if entry]


def _tracked_though_ignored(area: Area, repository: Repository) -> list[str]:
    """Files that a person added in spite of his exclude rules, from his index, which is only read."""
    _, out = run(
        *("ls-files", "-z", "-c", "-i", "--exclude-standard"),
        cwd=area.folder,
        env={"GIT_DIR": str(repository.git_dir), "GIT_WORK_TREE": str(repository.top)},
        settings=area.settings,
    )
    return [os.fsdecode(entry) for entry in out.split(b"\0") if entry]


def _replace(held: Held, area: Area, entries: Mapping[str, str | None]) -> None:
    """Set entries to the commit of a repository inside, or remove them."""
    if entries:
        lines = [
            f"160000 {commit} 0\t{area.prefix}{path}" if commit else f"0 {held.nothing()}\t{area.prefix}{path}"
            for path, commit in entries.items()
        ]
        stdin = b"".join(os.fsencode(line) + b"\0" for line in lines)
        held.git("update-index", "-z", "--add", "--replace", "--index-info", area=area, stdin=stdin, settings=TOGETHER)


def _put(held: Held, area: Area, paths: list[str]) -> None:
    if paths:
        stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
        words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        held.git(*words, area=area, stdin=stdin, settings=TOGETHER, borrow=True)
