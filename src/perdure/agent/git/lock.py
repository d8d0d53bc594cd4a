"""The lock on a session's repository, and the lock files that git itself leaves behind.

A query takes no lock. A command that changes the repository holds `perdure.lock` in git's folder and passes the
descriptor on to git, and through git to the hook runners (`perdure.agent.git.sandboxed_git`):

    lock      no other process of Perdure changes the repository: no living worker, and no git that outlived a dead one
    mark      the lock file records that a change has begun; git's own lock files did not exist at that time
    run       git, in a process group of its own
    unmark    git has ended and left no lock file behind

A worker that is killed leaves git running. The next process that wants to change or probe the repository waits for
the lock, so it never reads a state that may still change. A git that is killed leaves its own lock files behind
(`index.lock`). Their age proves nothing. Such a file is removed only if the mark shows that it was made after our
command began, our lock shows that this command is dead, and no process on this machine has the file open or is a git
in this repository. Otherwise a person is told.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.agent.files.workspace import here
from perdure.agent.git.repository import query, require_repository
from perdure.errors import NotDone
from perdure.process import open_for_parent
from perdure.store.writer.lock import LockRequest

LOCK_SECONDS = 120.0  # to wait for a git command that began earlier
TRIES = 50  # ten in a second


@contextmanager
def repository_lock() -> Iterator[int]:
    """Hold the lock: while it is held, no git started by this or a dead worker runs here."""
    require_repository()
    folder = Path(query("rev-parse", "--absolute-git-dir").line)
    try:
        lock = open_for_parent(folder / "perdure.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    except OSError as error:
        raise NotDone(f"Git's folder cannot be locked: {error.strerror}.") from None
    try:
        if not LockRequest(lock).granted_within(LOCK_SECONDS):
            raise NotDone("An earlier git command still runs here; nothing was done.")
        try:
            yield lock
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # also if a daemon that git left behind has our descriptor
    finally:
        os.close(lock)


@contextmanager
def write_lock(*names: str) -> Iterator[int]:
    """Hold the lock in order to change something; `names` are the lock files that git will need."""
    with repository_lock() as lock:
        files = [Path(here().root, query("rev-parse", "--git-path", name).line) for name in names]
        marked = os.fstat(lock).st_size > 0
        for file in files:
            _clear(file, marked)
        os.pwrite(lock, b"begun\n", 0)
        try:
            yield lock
        finally:
            if not any(file.exists() for file in files):
                os.ftruncate(lock, 0)


def _clear(file: Path, marked: bool) -> None:
    for _ in range(TRIES):
        if not file.exists():
            return
        if marked and not _may_be_in_use(file):
            file.unlink(missing_ok=True)
            return
        time.sleep(0.1)
    raise NotDone(
        f"Another git process uses this repository, or was killed: {file.name} exists.",
        hint=f"If no git process runs there, remove {file}.",
    )


def _may_be_in_use(file: Path) -> bool:
    """Whether a living process may rely on a lock file of git. When in doubt, yes."""
    folders = (str(here().root), str(file.parent))
    try:
        processes = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return True
    return any(_uses_lock(Path("/proc", str(pid)), file, folders) for pid in processes if pid != os.getpid())


def _uses_lock(process: Path, file: Path, folders: tuple[str, ...]) -> bool:
    try:
        is_git = (process / "comm").read_text(errors="replace").startswith("git")
    except OSError:
        return False  # it has ended
    try:
        if is_git and f"{os.readlink(process / 'cwd')}/".startswith(tuple(f"{folder}/" for folder in folders)):
            return True
        return any(_is(one, file) for one in (process / "fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return is_git  # a git of another user, whose files cannot be seen


def _is(descriptor: Path, file: Path) -> bool:
    try:
        return os.readlink(descriptor) == str(file)
    except OSError:
        return False
