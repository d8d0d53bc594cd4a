"""Durable files: the one way to make a folder, and to write a file whole or not at all.

    write     the content goes to a temporary name
    sync      the content is durable
    rename    the file gets its name: a reader sees the old file or the new one, never a part of either
    sync      the name is durable

A crash before the last line leaves the old file, and perhaps a temporary file that costs space and nothing else.

Two places do not use this module: `agent.files.safe_files` works relative to descriptors, because it writes into
folders that an agent can change meanwhile, and `agent.commands.runner` imports only the standard library.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from perdure import faults
from perdure.errors import StoreFull, StoreUnavailable
from perdure.ids import new_uid

QUOTA = (errno.EFBIG, errno.EDQUOT)  # a limit on the file or on the user
FULL = (errno.ENOSPC, *QUOTA)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder and all its missing parents, readable by this user only, and make their names durable.

    One level at a time, so that a process that dies here leaves at most one level that is not durable: the lowest one
    that exists, and the next call begins with that.
    """
    missing = [level for level in (folder, *folder.parents) if not level.exists()]
    lowest = missing[-1].parent if missing else folder
    try:
        with suppress(PermissionError):  # the folder belongs to another user, who made it
            sync_folder(lowest.parent)
        for level in reversed(missing):
            level.mkdir(0o700, exist_ok=True)
            sync_folder(level.parent)
    except OSError as error:
        failure = StoreFull if error.errno in FULL else StoreUnavailable
        raise failure(f"The folder {folder} cannot be made: {error.strerror}.") from error


def create(path: Path, *, mode: int = 0o600) -> IO[bytes]:
    """A new file, open for writing and reading; raises `FileExistsError` where there is one."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "w+b")


def sync_file(file: IO[Any], fault: str = "") -> None:
    """Make the content of an open file durable. `fault` names the fault point between writing and syncing."""
    file.flush()
    if fault:
        faults.point(fault)
    os.fsync(file.fileno())


def move_into_place(temporary: Path, path: Path, faults_of: str = "") -> None:
    """Give a file or folder whose content is durable its name, replacing a file that has it, and make that durable."""
    temporary.rename(path)
    if faults_of:
        faults.point(f"{faults_of}.renamed")
    sync_folder(path.parent)
    if faults_of:
        faults.point(f"{faults_of}.durable")


def write_whole(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file whole and durable, or not at all. The old file is there until the new one is."""
    temporary = path.with_name(f".{path.name}-{new_uid()}")
    try:
        with create(temporary, mode=mode) as file:
            file.write(content)
            sync_file(file)
        move_into_place(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
