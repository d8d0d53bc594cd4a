"""The temporary folder of the demo, and the folders that killed demos left behind.

A demo holds a lock in its folder while it runs, and gives the lock file its name only when it holds the lock. So a
folder with such a file whose lock is free belongs to a demo that is dead; the next demo removes it. A folder without
one is left alone, because its owner is unknown. The processes that a demo started end with it.
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
    """A folder that is removed afterwards; after a kill, the next demo removes it."""
    remove_stale_folders()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        lock = os.open(Path(name, f".{LOCK}"), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.rename(Path(name, f".{LOCK}"), Path(name, LOCK))
            yield name
        finally:
            os.close(lock)


def remove_stale_folders() -> None:
    """Remove the folders of dead demos of this user."""
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
