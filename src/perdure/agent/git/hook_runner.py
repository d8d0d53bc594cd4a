"""The keeper: what git runs in the place of a hook or a filter. It runs that in the sandbox, and itself stays outside.

A hook is a person's, but what it runs often lies in the folder that an agent writes. So a hook may touch what a command
may touch, and `.git` is as read-only for it. What a hook must be able to change there, it changes in a copy:

    copy     the index and the message lie in a folder of the hook's own; new objects go there too
    run      the hook, watched over like a command; whatever it leaves behind is ended with it
    take     if it agreed: the message, and what `pre-commit` staged, entry by entry; the rest is thrown away

Nothing that a hook wrote is given to git as a file of git's: entries come as text, and objects as a pack, which git
unpacks and names by their content. A keeper that is killed takes its hook with it and has changed at most the index, as
a whole. It holds the lock of the act as long as the hook runs; the hook is not given it.

It imports nothing but the standard library and the shepherd, because every hook waits for it.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from contextlib import suppress
from typing import Any

from perdure.agent.commands.runner import SUBREAPER, Output, Shepherd

MESSAGES = ("applypatch-msg", "commit-msg", "prepare-commit-msg")  # hooks that are given a message to change
STAGING = "pre-commit"  # the hook after which git reads the index again
OURS = ("GIT_CONFIG_", "GIT_SSH", "GIT_ALLOW_PROTOCOL", "GIT_NO_LAZY_FETCH")  # for git outside, not for a hook
LARGEST = 256 << 20
_WHY = {
    "timeout": "its time was up",
    "ended": "the act was ended",
    "processes": "it had too many processes",
    "disk": "it wrote too much",
}


class HookRunner(Shepherd):
    """One hook or filter, from its beginning to its end."""

    def __init__(self, folder: str, told: dict[str, Any]) -> None:
        super().__init__(folder, told["pen"], told["limits"])
        self._own = f"{folder}/tmp"
        self._given = told
        self._git_said = dict(os.environ)
        self._environment = self._for_the_hook()

    def hook(self, name: str, *arguments: str) -> int:
        given, message = list(arguments), None
        if name in MESSAGES and given:
            message, given[0] = given[0], f"{self._own}/message"
            _write(given[0], _read(message))
        index = self._git_said.get("GIT_INDEX_FILE", self._given["index"])
        staged = f"{self._own}/index"
        if os.path.exists(index):
            _write(staged, _read(index))
            there = os.stat(index)  # git tells by it which files to compare
            os.utime(staged, ns=(there.st_atime_ns, there.st_mtime_ns))
        before = _identity(staged)
        code = self._keep([self._given["hooks"][name], *given], staging=name == STAGING)
        if code == 0 and message is not None:
            _write(message, _read(f"{self._own}/message"))
        if code == 0 and name == STAGING and _identity(staged) != before:
            self._take_staged()
        return code

    def filter(self, name: str, path: str = "") -> int:
        import shlex

        command = self._given["filters"][name].replace("%f", shlex.quote(path))
        return self._keep(["/bin/sh", "-c", command])

    def _for_the_hook(self) -> dict[str, str]:
        """What a command is told, and what git says to its hooks; but not our settings, which are for git outside."""
        said = {name: value for name, value in self._git_said.items() if name.startswith("GIT_")}
        kept = {name: value for name, value in said.items() if not name.startswith(OURS)}
        copies = {
            "GIT_INDEX_FILE": f"{self._own}/index",
            "GIT_OBJECT_DIRECTORY": f"{self._own}/objects",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": json.dumps(self._given["objects"], ensure_ascii=False),
        }
        told = {name: self._placed(value) for name, value in self._given["environment"].items()}
        return told | kept | copies

    def _placed(self, word: str) -> str:
        return word.replace(self._given["place"], self._own)

    def _line(self, argv: list[str], *, staging: bool = False) -> list[str]:
        line = [*self._given["line"], *(self._given["refs"] if staging else ())]
        run = ["/bin/sh", "-c", 'exec "$0" "$@"', *argv]  # a shell also runs what has no first line that says how
        return [*map(self._placed, line), "--", *run]

    def _keep(self, argv: list[str], *, staging: bool = False) -> int:
        self._listen()
        self._control(SUBREAPER, 1)
        with open(f"{self._folder}/started", "w"):
            pass  # from when on what is written counts
        if staging and self._given["refs"]:
            self._copy_refs()
        os.environ.clear()
        os.environ.update(self._environment)
        pid, pipe = self._begin(self._line(argv, staging=staging))
        how = self._watch(pid, pipe, Output(os.devnull, 0))
        self._quiet()
        if how == "exited":
            code = os.waitstatus_to_exitcode(self._status or 0)
            return code if code >= 0 else 128 - code
        sys.stderr.write(f"It was ended: {_WHY[how]}.\n")
        return 1

    def _speak(self, its_end: int) -> None:
        """It reads what git says to it, and git hears what it says."""

    def _copy_refs(self) -> None:
        import shutil

        for name in ("refs", "logs"):
            there = f"{self._given['common']}/{name}"
            if os.path.isdir(there):
                shutil.copytree(there, f"{self._own}/{name}", symlinks=True)

    def _take_staged(self) -> None:
        """Make the index hold what the hook's copy of it holds."""
        listing = ("ls-files", "--stage", "-z")
        old, new = self._outside(*listing).split(b"\0"), self._inside(*listing).split(b"\0")
        changed = sorted(set(filter(None, new)) - set(old))
        kept = {entry.partition(b"\t")[2] for entry in new}
        gone = [path for entry in old if (path := entry.partition(b"\t")[2]) and path not in kept]
        blobs = {entry.split(b" ")[1] for entry in changed if not entry.startswith(b"160000 ")}
        if blobs:
            pack = self._inside("pack-objects", "--quiet", "--stdout", given=b"".join(name + b"\n" for name in blobs))
            self._outside("unpack-objects", "-q", given=pack)
        lines = [b"0 " + b"0" * 40 + b"\t" + path for path in gone] + changed
        if lines:
            self._outside("update-index", "-z", "--index-info", given=b"".join(line + b"\0" for line in lines))

    def _inside(self, *arguments: str, given: bytes = b"") -> bytes:
        return _ask(self._line([self._given["git"], *arguments]), self._environment, given)

    def _outside(self, *arguments: str, given: bytes = b"") -> bytes:
        line = [self._given["git"], "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *arguments]
        return _ask(line, self._git_said, given)


def _ask(line: list[str], environment: dict[str, str], given: bytes) -> bytes:
    import subprocess
    import threading

    with subprocess.Popen(line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as asked:
        assert asked.stdin is not None
        assert asked.stdout is not None
        feeder = threading.Thread(target=_feed, args=(asked.stdin, given))
        feeder.start()
        said = asked.stdout.read(LARGEST + 1)
        if len(said) > LARGEST:
            asked.kill()
        feeder.join()
        if asked.wait():
            raise OSError(f"what the hook staged cannot be taken: {line[-3]} ended with {asked.returncode}")
    return said


def _feed(pipe: Any, given: bytes) -> None:
    with suppress(BrokenPipeError), pipe:
        pipe.write(given)


def _identity(path: str) -> tuple[int, ...]:
    with suppress(OSError):
        there = os.lstat(path)
        return there.st_ino, there.st_size, there.st_mtime_ns
    return ()


def _read(path: str) -> bytes:
    """A plain file and nothing else: a hook may have left a link to somewhere."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is not a file")
        return file.read(LARGEST)


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def main(spec: str, kind: str, name: str, *arguments: str) -> None:
    for one in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):
            os.set_inheritable(one, one < 3)
    with open(spec) as file:
        told = json.load(file)
    around = os.path.dirname(spec)
    folder = f"{around}/{os.getpid()}-{len(os.listdir(around))}"
    os.makedirs(f"{folder}/tmp/objects")
    keeper = HookRunner(folder, told)
    keeper.fork_guard()
    try:
        sys.exit(keeper.hook(name, *arguments) if kind == "hook" else keeper.filter(name, *arguments))
    except OSError as error:
        sys.exit(f"{name} cannot be kept in the sandbox: {error}")
