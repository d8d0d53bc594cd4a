"""Replaces single paths of a folder, each only if it still holds what a snapshot holds.

    stage      write the new content to a file beside the path, whole and synced
    exchange   one atomic rename exchanges the two: the old content now has the temporary name
    compare    the old content must be that of the snapshot; otherwise exchange them back and report the path
    remove     remove the old content, which the snapshot holds

The comparison comes after the exchange, so an edit that a person saves at the same moment is noticed and kept. Where
the file system cannot exchange two names, the comparison comes immediately before the rename.

The temporary names follow from the path. After a crash the same replacement finds what was left under them: content of
the snapshots is removed, and content that no snapshot holds goes back to its path.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from errno import EEXIST, EINVAL, ENOSYS, ENOTDIR, ENOTEMPTY
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from perdure import faults
from perdure.agent.files.checkout import FEW, LINK, NOTHING, Change, permissions, remove_emptied
from perdure.agent.files.object_store import LockedStore, sync_all
from perdure.agent.files.objects import read_blobs
from perdure.agent.files.safe_files import CHUNK, FILE, NEW, folder
from perdure.durable import sync_folder
from perdure.errors import Damaged
from perdure.ids import digest

NO_REPLACE, EXCHANGE = 1, 2  # flags of renameat2
FOLDER, OTHER = "folder", "other"  # no file of a snapshot: the latter is a socket or a device
BATCH = 256  # files that are staged and synced together

CHANGED = "it has changed since the snapshot was taken"
IN_NO_SNAPSHOT = "a file that is in no snapshot is there"
FOLDER_IN_PLACE = "a folder with files that are in no snapshot is there"
LOST = "its content is missing from the snapshots"
NESTED_ABOVE = "it is inside a repository of its own"


class PathEntry(NamedTuple):
    """What is at a path: the mode and object name that a snapshot would hold."""

    mode: str
    name: str


class PathRefused(Exception):
    """A path that was left as it is, with the reason."""


class PathReplacer:
    """Replaces paths of one folder."""

    def __init__(self, store: LockedStore, root: Path) -> None:
        self._store = store
        self._root = root
        self.done: list[str] = []
        self.refused: dict[str, str] = {}

    def replace(self, changes: Iterable[Change]) -> None:
        """Make each path hold its new content, or nothing; what is refused is left as it is."""
        changes = list(changes)
        removed = sorted((one for one in changes if not one.is_written), key=lambda one: one.path, reverse=True)
        written = [one for one in changes if one.is_written]
        for change in (*removed, *written):
            self._try(change, self._settle_left)
        for change in removed:
            self._try(change, self._remove)
        for start in range(0, len(written), BATCH):
            self._write(written[start : start + BATCH])
        for change in removed:
            remove_emptied(self._root, (self._root / change.path).parent)
        self._sync_folders(changes)

    def _try(self, change: Change, step: Callable[[Change], None]) -> bool:
        if change.path in self.refused:
            return False
        try:
            step(change)
        except PathRefused as why:
            self.refused[change.path] = str(why)
        except OSError as error:
            self.refused[change.path] = (error.strerror or type(error).__name__).lower()
        return change.path not in self.refused

    def _settle_left(self, change: Change) -> None:
        """Handle what an interrupted replacement of this path left under its two temporary names."""
        staged, moved = temporary_names(change)
        with suppress(FileNotFoundError, NotADirectoryError), self._above(change) as above:
            with suppress(FileNotFoundError):
                os.unlink(staged, dir_fd=above)
            if (left := self._entry(moved, above)).mode == NOTHING:
                return
            if left not in (_old(change), _new(change)):
                self._give_back(change, above)
            os.unlink(moved, dir_fd=above)

    def _give_back(self, change: Change, above: int) -> None:
        """Give the path its content back: it is an edit that no snapshot holds."""
        _, moved = temporary_names(change)
        try:
            _rename(moved, _name(change), above, NO_REPLACE)
        except FileExistsError:
            if self._entry(_name(change), above) != _new(change):
                raise PathRefused(f"{CHANGED}; an earlier edit of it is in {moved}") from None
            _rename(moved, _name(change), above, EXCHANGE)
            if self._entry(moved, above) not in (_new(change), PathEntry(NOTHING, "")):
                raise PathRefused(f"{CHANGED} twice; the later edit of it is in {moved}") from None
            with suppress(FileNotFoundError):
                os.unlink(moved, dir_fd=above)
        raise PathRefused(CHANGED)

    def _remove(self, change: Change) -> None:
        with suppress(FileNotFoundError, NotADirectoryError), self._above(change) as above:
            there = self._entry(_name(change), above)
            if there.mode not in (NOTHING, FOLDER):  # a folder: an earlier attempt removed the file, and wrote below it
                self._expect(there, _old(change))
                _, moved = temporary_names(change)
                _rename(_name(change), moved, above, NO_REPLACE)
                faults.point("file.renamed")
                if self._entry(moved, above) != _old(change):
                    self._give_back(change, above)
                os.unlink(moved, dir_fd=above)
        self.done.append(change.path)

    def _write(self, changes: list[Change]) -> None:
        """Stage the new contents of some paths, sync them together, then exchange each."""
        waiting = [one for one in changes if self._try(one, self._prepare) and one.path not in self.done]
        staged: list[Change] = []
        try:
            for change, content in zip(waiting, read_blobs(self._store, [one.new for one in waiting]), strict=True):
                if self._try(change, partial(self._stage, content=content, sync=len(waiting) <= FEW)):
                    staged.append(change)
                for _ in content:
                    pass  # what is left of a content must be read before the next one
        except Damaged:
            self.refused |= {one.path: LOST for one in waiting if one not in staged and one.path not in self.refused}
        if len(waiting) > FEW:
            sync_all(self._root)
        faults.point("file.synced")
        for change in staged:
            self._try(change, self._exchange)

    def _prepare(self, change: Change) -> None:
        """Check that the path can be replaced, and make its folder."""
        for parent in list(PurePosixPath(change.path).parents)[:-1]:
            if os.path.lexists(self._root / parent / ".git"):
                raise PathRefused(NESTED_ABOVE)
        with self._above(change, make=True) as above:
            there = self._entry(_name(change), above)
            if there == _new(change):
                self.done.append(change.path)
            elif there.mode == FOLDER and change.old_mode == NOTHING:
                self._remove_empty_folder(change)
            else:
                self._expect(there, _old(change))

    def _remove_empty_folder(self, change: Change) -> None:
        """Remove a folder that holds only folders: its files were removed before."""
        found = list(os.walk(self._root / change.path, topdown=False))
        if any(files or any(os.path.islink(os.path.join(top, one)) for one in below) for top, below, files in found):
            raise PathRefused(FOLDER_IN_PLACE)  # before any folder is removed: a repository inside needs its empty ones
        try:
            for top, _, _ in found:
                os.rmdir(top)
        except OSError as error:
            if error.errno in (ENOTEMPTY, EEXIST, ENOTDIR):
                raise PathRefused(FOLDER_IN_PLACE) from None
            raise

    def _stage(self, change: Change, content: Iterator[bytes], *, sync: bool) -> None:
        staged, _ = temporary_names(change)
        with self._above(change) as above:
            try:
                if change.mode == LINK:
                    os.symlink(b"".join(content), os.fsencode(staged), dir_fd=above)
                    return
                descriptor = os.open(staged, NEW, 0o777, dir_fd=above)
                with open(descriptor, "wb") as file:
                    self._copy_attributes(change, descriptor)  # first: the content may be for one reader only
                    file.writelines(content)
                    file.flush()
                    faults.point("file.temp")
                    if sync:
                        os.fsync(descriptor)
            except BaseException:
                with suppress(OSError):
                    os.unlink(staged, dir_fd=above)
                raise

    def _copy_attributes(self, change: Change, descriptor: int) -> None:
        target = self._root / change.path
        with suppress(OSError):
            there = target.lstat()
            if stat.S_ISREG(there.st_mode):
                os.fchown(descriptor, there.st_uid, there.st_gid)
        os.fchmod(descriptor, permissions(os.fstat(descriptor), target, change.mode))

    def _exchange(self, change: Change) -> None:
        staged, moved = temporary_names(change)
        with self._above(change) as above:
            try:
                self._expect(self._entry(_name(change), above), _old(change))
                os.rename(
                    staged, moved, src_dir_fd=above, dst_dir_fd=above
                )  # complete: what has this name may be moved
                _rename(moved, _name(change), above, NO_REPLACE if change.old_mode == NOTHING else EXCHANGE)
            except (PathRefused, OSError) as error:
                for name in (staged, moved):
                    with suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=above)
                if isinstance(error, FileExistsError | FileNotFoundError):
                    raise PathRefused(IN_NO_SNAPSHOT if change.old_mode == NOTHING else CHANGED) from None
                raise
            faults.point("file.renamed")
            left = self._entry(moved, above)
            if left.mode != NOTHING and left != _old(change):
                self._give_back(change, above)
            with suppress(FileNotFoundError):
                os.unlink(moved, dir_fd=above)
        self.done.append(change.path)

    def _expect(self, there: PathEntry, wanted: PathEntry) -> None:
        if there != wanted:
            raise PathRefused(IN_NO_SNAPSHOT if wanted.mode == NOTHING else CHANGED)

    def _above(self, change: Change, *, make: bool = False) -> AbstractContextManager[int]:
        return folder((self._root / change.path).parent, make=make, root=self._root)

    def _entry(self, name: str, above: int) -> PathEntry:
        """What is at a name in an open folder."""
        try:
            there = os.stat(name, dir_fd=above, follow_symlinks=False)
        except FileNotFoundError:
            return PathEntry(NOTHING, "")
        if stat.S_ISLNK(there.st_mode):
            target = os.fsencode(os.readlink(name, dir_fd=above))
            return PathEntry(LINK, self._store.blob_name(len(target), [target]))
        if not stat.S_ISREG(there.st_mode):
            return PathEntry(FOLDER if stat.S_ISDIR(there.st_mode) else OTHER, "")
        with open(os.open(name, FILE, dir_fd=above), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            object_name = self._store.blob_name(size, iter(lambda: file.read(CHUNK), b""))
        return PathEntry("100755" if there.st_mode & stat.S_IXUSR else "100644", object_name)

    def _sync_folders(self, changes: list[Change]) -> None:
        touched = {(self._root / one.path).parent for one in changes if one.path in set(self.done)}
        there = [one for one in touched if one.is_dir()]
        if len(there) > FEW:
            sync_all(self._root)
        for one in there if len(there) <= FEW else ():
            sync_folder(one)


def temporary_names(change: Change) -> tuple[str, str]:
    """Two names beside a path: for content that is being written, and for complete content that is moved."""
    name = f".perdure-{digest(os.fsencode(change.path))[:24]}"
    return f"{name}.part", f"{name}.tmp"


def _name(change: Change) -> str:
    return change.path.rpartition("/")[2]


def _old(change: Change) -> PathEntry:
    return PathEntry(change.old_mode, "" if change.old_mode == NOTHING else change.old)


def _new(change: Change) -> PathEntry:
    return PathEntry(change.mode, "" if change.mode == NOTHING else change.new)


def _rename(old: str, new: str, above: int, flag: int) -> None:
    """Rename inside one open folder, without replacing a file or as an exchange, as far as the system can."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is not None:
        if not rename(above, os.fsencode(old), above, os.fsencode(new), flag):
            return
        if (error := ctypes.get_errno()) not in (ENOSYS, EINVAL):
            raise OSError(error, os.strerror(error), old)
    if flag == NO_REPLACE and _exists(new, above):
        raise FileExistsError(EEXIST, os.strerror(EEXIST), new)
    os.rename(old, new, src_dir_fd=above, dst_dir_fd=above)


def _exists(name: str, above: int) -> bool:
    try:
        os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
