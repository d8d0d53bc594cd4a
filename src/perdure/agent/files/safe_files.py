"""Files beneath the folder of a session: found by a model's path, opened without following a link, replaced at once.

`here().inside()` gives a path without links. Somebody may put a link in its place a moment later, so every folder on
the way is opened by itself and refuses to be one.

    temp      the bytes are in a file of their own, in the same folder
    sync      the bytes are durable
    rename    the file has its name: old or new, never half
    sync      the name is durable

The name of the temporary file follows from what is written, so an attempt after a crash takes it away again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EIO
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from perdure import faults
from perdure.agent.commands.executables import own_code
from perdure.agent.files.workspace import here
from perdure.agent.tools.result import short
from perdure.config import FILE as FILE_OF_SETTINGS
from perdure.errors import NotDone
from perdure.ids import digest

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # opening a fifo must not wait for its other end
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
CHUNK = 1 << 20
LARGEST = 100 << 20  # of a file that is read at all


def real_path(path: str) -> Path:
    """A model's path as a real one inside the folder; whatever is wrong with it is a sentence."""
    try:
        found = here().inside(path)
        whole = os.fsencode(found)
        if len(whole) > 4000 or any(len(part) > 255 for part in whole.split(b"/")):
            raise ValueError("it is too long")  # opened folder by folder, it would be made, and nobody could open it
        return found
    except (OSError, RuntimeError, ValueError) as error:  # or a circle of links, or half a letter
        raise NotDone(f"{short(path)} is not a usable path: {_why(error)}.") from None


def writable_path(path: str) -> Path:
    """The same for a path that is written; the inside of any repository, also a nested one, is git's alone."""
    found = real_path(path)
    if any(part.lower() == ".git" for part in found.relative_to(here().root).parts):
        raise NotDone(f"{short(path)} is protected.")
    if found.name.lower() == FILE_OF_SETTINGS:
        raise NotDone(f"{short(path)} is protected: Perdure reads its settings from it, so only a person changes it.")
    if found == here().root:
        raise NotDone(f"{short(path)} is a folder.")
    if any(found == own or own in found.parents for own in own_code(here().root)):
        raise NotDone(f"{short(path)} is protected: Perdure itself runs from there.")
    return found


def label(path: Path) -> str:
    """How the record names a file: its path from the folder of the session."""
    return path.relative_to(here().root).as_posix()


@contextmanager
def folder(path: Path, *, make: bool = False) -> Iterator[int]:
    """A descriptor of a folder, reached from the top without following a link; `make` makes what is missing."""
    descriptor = os.open(here().root, FOLDER)
    try:
        for name in path.relative_to(here().root).parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=descriptor)
                    os.fsync(descriptor)
            below = os.open(name, FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO | None]:
    """A regular file, open for reading; None if there is nothing by that name."""
    with _as_not_done(path):
        descriptor = _open(path)
        if descriptor is None:
            yield None
            return
        with os.fdopen(descriptor, "rb") as file:
            there = os.fstat(descriptor)
            if stat.S_ISDIR(there.st_mode):
                raise NotDone(f"{short(label(path))} is a folder.")
            if not stat.S_ISREG(there.st_mode):
                raise NotDone(f"{short(label(path))} is not a regular file.")
            if there.st_size > LARGEST:
                raise NotDone(f"{short(label(path))} has {there.st_size} bytes, too many to read.")
            yield file


def _open(path: Path) -> int | None:
    if path == here().root:
        return os.open(path, FOLDER)
    try:
        with folder(path.parent) as above:
            return os.open(path.name, FILE, dir_fd=above)
    except FileNotFoundError:
        return None


def content_of(path: Path) -> bytes | None:
    """What a file holds, or None if there is none."""
    with open_file(path) as file:
        return None if file is None else file.read(LARGEST)


def digest_of(path: Path) -> str | None:
    """The digest of what a file holds, or None if there is none."""
    with open_file(path) as file:
        if file is None:
            return None
        hashing = sha256()
        while chunk := file.read(CHUNK):
            hashing.update(chunk)
        return hashing.hexdigest()


def replace(path: Path, content: bytes, before: str | None) -> None:
    """Make a file hold `content`, if it holds what it held before. Done already: nothing is written."""
    with _as_not_done(path):
        with folder(path.parent, make=True) as above:
            _replace(path, content, before, above)
            kept = os.dup(above)
    try:
        faults.point("file.renamed")
        os.fsync(kept)  # it is done by now: an error here is no proof of anything
    finally:
        os.close(kept)


def _replace(path: Path, content: bytes, before: str | None, above: int) -> None:
    after = digest(content)
    temporary = f".perdure-{digest(path.name + after)[:24]}.tmp"
    with suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=above)
    if (there := digest_of(path)) == after:
        _sync(path, above)
        return
    try:
        if there == before:
            _write(path, content, temporary, above)
            there = digest_of(path)
        if there != before:
            raise NotDone(f"{short(label(path))} was changed meanwhile; read it again.")
        os.rename(temporary, path.name, src_dir_fd=above, dst_dir_fd=above)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=above)
        raise


def _write(path: Path, content: bytes, temporary: str, above: int) -> None:
    descriptor = os.open(temporary, NEW, 0o666, dir_fd=above)
    with os.fdopen(descriptor, "wb") as file:
        with suppress(FileNotFoundError):
            there = os.stat(path.name, dir_fd=above, follow_symlinks=False)
            with suppress(PermissionError):
                os.fchown(descriptor, there.st_uid, there.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(there.st_mode) & 0o777)  # new content never runs as another user
        file.write(content)
        file.flush()
        faults.point("file.temp")
        os.fsync(descriptor)
    faults.point("file.synced")


def sync_file(path: Path) -> None:
    """Make what a file holds now durable: what was found there must not be lost to a power cut."""
    with _as_not_done(path), folder(path.parent) as above:
        _sync(path, above)


def _sync(path: Path, above: int) -> None:
    descriptor = os.open(path.name, FILE, dir_fd=above)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.fsync(above)


@contextmanager
def _as_not_done(path: Path) -> Iterator[None]:
    """What the file system refuses, as a sentence. A disk that fails proves nothing, and its error is passed on."""
    try:
        yield
    except OSError as error:
        if error.errno == EIO:
            raise
        raise NotDone(f"{short(label(path))} cannot be used: {_why(error)}.") from None


def _why(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else str(error)
    return short(text or type(error).__name__).rstrip(".").lower()
