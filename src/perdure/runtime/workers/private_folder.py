"""The folder for files that a process needs until the next boot: locks of workers, live text, output of commands."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from perdure.errors import StoreUnavailable


def runtime_folder() -> Path:
    """A folder of this user alone that does not outlive the machine's run.

    Any user can create its name in /tmp first, so it is used only if it is a real folder, owned by this user and
    closed to others.
    """
    if given := os.environ.get("XDG_RUNTIME_DIR"):
        folder = Path(given) / "perdure"
    else:
        folder = Path(tempfile.gettempdir()) / f"perdure-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = folder.lstat()
        if stat.S_ISDIR(there.st_mode) and there.st_uid == os.getuid() and there.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise StoreUnavailable(f"The folder {folder} cannot be made: {error.strerror}.") from error
    if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.getuid():
        raise StoreUnavailable(
            f"The folder {folder} belongs to another user, so it is not used.",
            hint="Set XDG_RUNTIME_DIR to a folder that only you can write.",
        )
    return folder
