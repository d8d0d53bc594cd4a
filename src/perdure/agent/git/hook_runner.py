"""The hook runner: the process that git runs in place of a hook or a filter.

It runs the hook or filter in the sandbox and stays outside itself. A hook belongs to the user, but what it runs often
lies in the folder that an agent writes. So a hook can touch what a command can touch, and `.git` is read-only for it
too. What a hook must be able to change there, it changes in a copy:

    copy     the index and the message are copied to a folder of the hook; new objects go there too
    run      the hook runs, watched like a command; every process that it leaves behind is ended with it
    take     if it succeeded: the message, and what `pre-commit` staged, entry by entry; the rest is discarded

Nothing that a hook wrote is given to git as one of git's own files: entries are passed as text, and objects as a pack,
which git unpacks and names by content. A hook runner that is killed takes its hook with it and has changed at most the
index, as a whole. It holds the lock of the git command as long as the hook runs; the hook does not get it.

It imports nothing but the standard library and the command runner, because every hook waits for it.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from contextlib import suppress
from typing import Any

from perdure.agent.commands.runner import SUBREAPER, CommandRunner, Output

MESSAGES = ("applypatch-msg", "commit-msg", "prepare-commit-msg")  # hooks that may change the message
STAGING = "pre-commit"  # the hook after which git reads the index again
OURS = (
    "GIT_CONFIG_",
    "GIT_SSH",
    "GIT_ALLOW_PROTOCOL",
    "GIT_NO_LAZY_FETCH",
)  # for git outside the sandbox, not for a hook
LARGEST = 256 << 20
_REASONS = {
    "timeout": "it reached its time limit",
    "ended": "the git command was stopped",
    "processes": "it started too many processes",
    "disk": "it wrote too much to the disk",
}


class HookRunner(CommandRunner):
    """One hook or filter, from its start to its end."""

    def __init__(self, folder: str, spec: dict[str, Any]) -> None:
        super().__init__(folder, spec["cgroup"], spec["limits"])
        self._own_folder = f"{folder}/tmp"
        self._spec = spec
        self._git_environment = dict(os.environ)
        self._environment = self._make_environment()

    def hook(self, name: str, *arguments: str) -> int:
        given, message = list(arguments), None
        if name in MESSAGES and given:
            message, given[0] = given[0], f"{self._own_folder}/message"
            _write(given[0], _read(message))
        index = self._git_environment.get("GIT_INDEX_FILE", self._spec["index"])
        staged = f"{self._own_folder}/index"
        if os.path.exists(index):
            _write(staged, _read(index))
            there = os.stat(index)  # git uses the time to decide which files to compare
            os.utime(staged, ns=(there.st_atime_ns, there.st_mtime_ns))
        before = _identity(staged)
        code = self._run_hook([self._spec["hooks"][name], *given], staging=name == STAGING)
        if code == 0 and message is not None:
            _write(message, _read(f"{self._own_folder}/message"))
        if code == 0 and name == STAGING and _identity(staged) != before:
            self._take_staged()
        return code

    def filter(self, name: str, path: str = "") -> int:
        import shlex

        command = self._spec["filters"][name].replace("%f", shlex.quote(path))
        return self._run_hook(["/bin/sh", "-c", command])

    def _make_environment(self) -> dict[str, str]:
        """The environment of a command plus git's variables for hooks, without our own settings for git."""
        from_git = {name: value for name, value in self._git_environment.items() if name.startswith("GIT_")}
        allowed = {name: value for name, value in from_git.items() if not name.startswith(OURS)}
        copies = {
            "GIT_INDEX_FILE": f"{self._own_folder}/index",
            "GIT_OBJECT_DIRECTORY": f"{self._own_folder}/objects",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": json.dumps(self._spec["objects"], ensure_ascii=False),
        }
        of_command = {name: self._in_own_folder(value) for name, value in self._spec["environment"].items()}
        return of_command | allowed | copies

    def _in_own_folder(self, word: str) -> str:
        return word.replace(self._spec["temporary"], self._own_folder)

    def _line(self, argv: list[str], *, staging: bool = False) -> list[str]:
        line = [*self._spec["line"], *(self._spec["refs"] if staging else ())]
        run = ["/bin/sh", "-c", 'exec "$0" "$@"', *argv]  # a shell also runs a script without a `#!` line
        return [*map(self._in_own_folder, line), "--", *run]

    def _run_hook(self, argv: list[str], *, staging: bool = False) -> int:
        self._handle_stop()
        self._control(SUBREAPER, 1)
        with open(f"{self._folder}/started", "w"):
            pass  # its time marks the start: what is written later counts
        if staging and self._spec["refs"]:
            self._copy_refs()
        os.environ.clear()
        os.environ.update(self._environment)
        pid, pipe = self._start(self._line(argv, staging=staging))
        how = self._wait(pid, pipe, Output(os.devnull, 0))
        self._end_descendants()
        if how == "exited":
            code = os.waitstatus_to_exitcode(self._status or 0)
            return code if code >= 0 else 128 - code
        sys.stderr.write(f"Stopped: {_REASONS[how]}.\n")
        return 1

    def _set_streams(self, write_end: int) -> None:
        """The hook keeps the input and the output that git gave it."""

    def _copy_refs(self) -> None:
        import shutil

        for name in ("refs", "logs"):
            there = f"{self._spec['common']}/{name}"
            if os.path.isdir(there):
                shutil.copytree(there, f"{self._own_folder}/{name}", symlinks=True)

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
        return _run(self._line([self._spec["git"], *arguments]), self._environment, given)

    def _outside(self, *arguments: str, given: bytes = b"") -> bytes:
        line = [self._spec["git"], "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *arguments]
        return _run(line, self._git_environment, given)


def _run(line: list[str], environment: dict[str, str], given: bytes) -> bytes:
    import subprocess
    import threading

    with subprocess.Popen(line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        feeder = threading.Thread(target=_feed, args=(process.stdin, given))
        feeder.start()
        output = process.stdout.read(LARGEST + 1)
        if len(output) > LARGEST:
            process.kill()
        feeder.join()
        if process.wait():
            raise OSError(f"cannot take over what the hook staged: {line[-3]} exited with {process.returncode}")
    return output


def _feed(pipe: Any, given: bytes) -> None:
    with suppress(BrokenPipeError), pipe:
        pipe.write(given)


def _identity(path: str) -> tuple[int, ...]:
    with suppress(OSError):
        there = os.lstat(path)
        return there.st_ino, there.st_size, there.st_mtime_ns
    return ()


def _read(path: str) -> bytes:
    """Read a regular file and nothing else: a hook may have left a link."""
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
        content = json.load(file)
    around = os.path.dirname(spec)
    folder = f"{around}/{os.getpid()}-{len(os.listdir(around))}"
    os.makedirs(f"{folder}/tmp/objects")
    hook_runner = HookRunner(folder, content)
    hook_runner.fork_guard()
    try:
        sys.exit(hook_runner.hook(name, *arguments) if kind == "hook" else hook_runner.filter(name, *arguments))
    except OSError as error:
        sys.exit(f"{name} cannot be run in the sandbox: {error}")
