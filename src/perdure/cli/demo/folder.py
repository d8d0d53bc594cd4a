"""The demo's own temporary folder, and those that killed demos left behind.

A demo holds a lock in its folder for life, and makes the lock's name only when it has it. So a folder with such a name
whose lock nobody holds belongs to a demo that is dead; it is removed by the next one. One without is left alone: nobody
knows whose it is. What a demo started ends by itself when the demo does.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX, LOCK = "perdure-demo-", "alive"


@contextmanager
def own_folder() -> Iterator[str]:
    """A folder that is removed afterwards, or after a kill by the next demo."""
    remove_left()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        lock = os.open(Path(name, f".{LOCK}"), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.rename(Path(name, f".{LOCK}"), Path(name, LOCK))
            yield name
        finally:
            os.close(lock)


def remove_left() -> None:
    """Remove the folders of demos of this user that are dead."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # another demo is faster, or it is not ours
            if _is_ours(folder) and _is_dead(folder / LOCK):
                shutil.rmtree(folder)


def _is_ours(folder: Path) -> bool:
    both = (os.lstat(folder), os.lstat(folder / LOCK))
    kinds = stat.S_ISDIR(both[0].st_mode) and stat.S_ISREG(both[1].st_mode)
    return kinds and all(one.st_uid == os.getuid() for one in both)


def _is_dead(path: Path) -> bool:
    lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
