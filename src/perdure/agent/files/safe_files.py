"""Safe access to files in the folder of a session: opens without following links, replaces atomically.

`here().inside()` returns a path without links. Another process may put a link there a moment later, so every folder on
the way is opened by itself, and opening fails if it is a link.

    temp      the bytes are in a file of their own, in the same folder
    sync      the bytes are durable
    rename    the file has its name: the old or the new content, never a part
    sync      the name is durable

The name of the temporary file follows from what is written, so an attempt after a crash removes it.
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
from perdure.store.store import is_open_file

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # opening a fifo must not wait for its other end
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
CHUNK = 1 << 20
LARGEST = 100 << 20  # bytes of a file that is read


def real_path(path: str) -> Path:
    """A model's path as a real path inside the folder; every problem with it becomes a `NotDone`."""
    try:
        found = here().inside(path)
        whole = os.fsencode(found)
        if len(whole) > 4000 or any(len(part) > 255 for part in whole.split(b"/")):
            raise ValueError("it is too long")  # opened folder by folder it could be made, but not opened by its path
        if is_open_file(found):
            raise ValueError("it is another name of a file of the store")
        return found
    except (OSError, RuntimeError, ValueError) as error:  # a circle of links, or half a surrogate pair
        raise NotDone(f"{short(path)} is not a usable path: {_why(error)}.") from None


def writable_path(path: str) -> Path:
    """The same for a path to write; the inside of any repository, nested ones too, belongs to git."""
    found = real_path(path)
    if any(part.lower() == ".git" for part in found.relative_to(here().root).parts):
        raise NotDone(f"{short(path)} is protected.")
    if found.name.lower() == FILE_OF_SETTINGS:
        raise NotDone(
            f"{short(path)} is protected: Perdure reads its settings from it, so only a person may change it."
        )
    if found == here().root:
        raise NotDone(f"{short(path)} is a folder.")
    if any(found == own or own in found.parents for own in own_code(here().root)):
        raise NotDone(f"{short(path)} is protected: Perdure itself runs from there.")
    return found


def label(path: Path) -> str:
    """The name of a file in the record: its path relative to the folder of the session."""
    return path.relative_to(here().root).as_posix()


@contextmanager
def folder(path: Path, *, make: bool = False, root: Path | None = None) -> Iterator[int]:
    """A descriptor of a folder, reached from the top without following a link; `make` makes missing folders.

    The top is the folder of the session whose tool is running, unless `root` is given.
    """
    top = here().root if root is None else root
    descriptor = os.open(top, FOLDER)
    try:
        for name in path.relative_to(top).parts:
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
    """A regular file, open for reading; None if it does not exist."""
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
    """The content of a file, or None if it does not exist."""
    with open_file(path) as file:
        return None if file is None else file.read(LARGEST)


def digest_of(path: Path) -> str | None:
    """The digest of a file's content, or None if it does not exist."""
    with open_file(path) as file:
        if file is None:
            return None
        hashing = sha256()
        while chunk := file.read(CHUNK):
            hashing.update(chunk)
        return hashing.hexdigest()


def replace(path: Path, content: bytes, before: str | None) -> None:
    """Make a file hold `content`, if it still holds what it held `before`, a digest; written at most once."""
    with _as_not_done(path):
        with folder(path.parent, make=True) as above:
            _replace(path, content, before, above)
            descriptor = os.dup(above)
    try:
        faults.point("file.renamed")
        os.fsync(descriptor)  # the file is replaced by now: an error here does not mean that it failed
    finally:
        os.close(descriptor)


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
            raise NotDone(f"{short(label(path))} has changed meanwhile; read it again.")
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
    """Make the current content of a file durable, so that a power failure cannot lose it."""
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
    """Turn an error of the file system into `NotDone`. A disk error proves nothing, so it is passed on."""
    try:
        yield
    except OSError as error:
        if error.errno == EIO:
            raise
        raise NotDone(f"{short(label(path))} cannot be used: {_why(error)}.") from None


def _why(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else str(error)
    return short(text or type(error).__name__).rstrip(".").lower()
