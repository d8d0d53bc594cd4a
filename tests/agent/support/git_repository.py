"""A user's repository to work on, a record of its state to compare with, and a process that dies at the k-th moment."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.forked import fork
from tests.seed import sample

CALLS = ("fsync", "mkdir", "open", "rename", "replace", "rmdir", "symlink", "unlink")
PERSON = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}
Photograph = dict[str, tuple[int, bytes]]


def git(folder: Path, *arguments: str) -> str:
    """What a person types."""
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        cwd=folder,
        env=os.environ | PERSON,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode()


def write(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def repository(folder: Path, files: dict[str, str] | None = None) -> Path:
    """A repository with a commit, a staged change, an unstaged change, an untracked file and an ignored one."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    write(folder, files or {"a.txt": "one\n", "src/b.py": "x = 1\n", "src/c.py": "y = 1\n", ".gitignore": "*.log\n"})
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=first")
    write(folder, {"staged.txt": "staged\n", "src/b.py": "x = 2\n"})
    git(folder, "add", "staged.txt")
    write(folder, {"src/b.py": "x = 3\n", "new.txt": "untracked\n", "noise.log": "ignored\n"})
    return folder


def photograph(folder: Path, *, without: tuple[str, ...] = ()) -> Photograph:
    """Every file below a folder byte for byte, with its mode; folders and links too."""
    found: Photograph = {}
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if os.path.relpath(os.path.join(root, name), folder) not in without]
        for name in (*folders, *files):
            path = os.path.join(root, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                content = os.fsencode(os.readlink(path))
            else:
                content = Path(path).read_bytes() if stat.S_ISREG(mode) else b""
            found[os.path.relpath(path, folder)] = (mode, content)
    return found


class Moments:
    """Counts what could be the last thing this process does, and makes the chosen one the last.

    A moment is before or after a call that changes files, and after the start of a git command. With `alone` git goes
    on when we die there; otherwise it is killed too, a little later, wherever it has come to.
    """

    def __init__(self, fatal: int, *, alone: bool = False, later: int = 0) -> None:
        self.count = 0
        self._fatal, self._alone, self._later = fatal, alone, later
        for name in CALLS:
            setattr(os, name, self._around(getattr(os, name)))
        subprocess.Popen = self._popen(subprocess.Popen)  # type: ignore[misc]

    def _moment(self, process: subprocess.Popen[bytes] | None = None) -> None:
        self.count += 1
        if self.count == self._fatal:
            if process is not None and not self._alone:
                for _ in range(self._later):
                    os.sched_yield()
                os.killpg(process.pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    def _around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def count_runs(*args: Any, **kwargs: Any) -> Any:
            self._moment()
            result = real(*args, **kwargs)
            self._moment()
            return result

        return count_runs

    def _popen(self, real: type[subprocess.Popen[bytes]]) -> Any:
        moment = self._moment

        class Counted(real):  # type: ignore[valid-type,misc]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                moment(self)

        return Counted


def live_and_die(act: Callable[[], object], fatal: int, *, alone: bool = False, later: int = 0) -> tuple[bool, int]:
    """Do something in a process that dies at the moment `fatal`, 0 for never; whether it died, and the moments seen."""
    reading, writing = os.pipe()

    def live() -> None:
        os.close(reading)
        moments = Moments(fatal, alone=alone, later=later)
        act()
        os.write(writing, str(moments.count).encode())

    child = fork(live)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True, fatal
    assert os.waitstatus_to_exitcode(status) == 0, "the act failed"
    return False, int(said)


def sweep(act: Callable[[int], Callable[[], object]], check: Callable[[int], None], *, most: int = 14) -> int:
    """Kill `act(number)` at its moment `number`, for numbers chosen from the seed; check each; how many moments it has.

    In turn git is left alive by our death, is killed at once with us, and is killed a little later.
    """
    _, moments = live_and_die(act(0), 0)
    check(0)
    for number in sample(range(1, moments + 1), most):
        live_and_die(act(number), number, alone=number % 3 == 0, later=number % 7 * 60)
        check(number)
    return moments
