"""The shepherd: a small process that starts one command, outlives the worker, and writes down how the command ended.

    lock      inherited from the worker, which took it before the shepherd existed; it is held until the shepherd ends
    started   who the shepherd is, synced: from here on the command may have begun
    exec      the command, in the sandbox; what it says goes to `output`
    end       the command has ended by itself, or by a limit, or because somebody left a file `end`
    quiet     whatever it left behind is ended too: every descendant is a child of the shepherd in the end
    exit      how it ended, synced, under its name whole or not at all

Lock free and no `started`: it never began and never will. `exit`: this is what came of it. Lock held: it is under way.
Lock free and `started` without `exit`: the shepherd was killed or the machine stopped, and nobody can say.

The shepherd has a guard: its parent process, which only waits for it. If the shepherd is killed, everything that the
command started becomes a child of the guard, and the guard ends it before it releases the lock. The death signal alone
reaches the command but not its children, except in a process namespace.

It imports nothing but a little of the standard library, because every command waits for it. The
lock and the worker's liveness descriptor stay with the shepherd: a command that had them could unlock both.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress

TICK, TAIL = 0.05, 8192
SUBREAPER, _DEATH_SIGNAL = 36, 1


class Output:
    """What a command says: up to a limit into the file, and of the rest the last lines."""

    def __init__(self, path: str, limit: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._room = limit
        self._tail = b""
        self.left_out = 0

    def take(self, pipe: int) -> bool:
        """Read once; whether more may come."""
        try:
            said = os.read(pipe, 1 << 16)
        except BlockingIOError:
            return False
        kept, rest = said[: self._room], said[self._room :]
        self._room -= len(kept)
        self._write(kept)
        self._tail = (self._tail + rest)[-TAIL:]
        self.left_out += len(rest)
        return bool(said)

    def close(self, pipe: int) -> None:
        while self.take(pipe):
            pass
        if self.left_out > len(self._tail):
            self._write(f"\n… {self.left_out - len(self._tail):,} bytes left out …\n".encode())
        self._write(self._tail)
        os.fsync(self._file)

    def _write(self, content: bytes) -> None:
        """A full disk costs what is said, and not the record of how it ended."""
        try:
            while content:
                content = content[os.write(self._file, content) :]
        except OSError:
            self.left_out += len(content)


class Disk:
    """How much a command wrote into its folders. The cheap question is asked often, the exact one on suspicion."""

    def __init__(self, folders: list[str], limit: int, since: str) -> None:
        self._folders = [folder for folder in folders if os.path.isdir(folder)]
        self._free = [_free(folder) for folder in self._folders]
        self._limit = min([limit, *(free // 2 for free in self._free)])
        self._since = os.stat(since).st_ctime_ns

    def is_spent(self) -> bool:
        before_and_now = zip(self._free, map(_free, self._folders), strict=True)
        if all(before - now <= self._limit for before, now in before_and_now):
            return False
        spent = sum(self._written(folder) for folder in self._folders) > self._limit
        if not spent:  # somebody else's: begin to count anew
            self._free = [_free(folder) for folder in self._folders]
        return spent

    def _written(self, folder: str) -> int:
        """The room of what changed since the command began."""
        total = 0
        for path in (f"{place}/{name}" for place, _, names in os.walk(folder) for name in names):
            with suppress(OSError):
                there = os.lstat(path)
                total += there.st_blocks * 512 if there.st_ctime_ns >= self._since else 0
        return total


def _free(folder: str) -> int:
    with suppress(OSError):
        there = os.statvfs(folder)
        return there.f_bavail * there.f_frsize
    return 0


class Shepherd:
    """One command, from its record to its end."""

    def __init__(self, folder: str, pen: str, limits: dict[str, int]) -> None:
        self._folder = folder
        self._pen = pen
        self._limits = limits
        self._told = False
        self._priority = os.getpriority(os.PRIO_PROCESS, 0)
        self._status: int | None = None
        self._libc = ctypes.CDLL(None)

    def run(self, argv: list[str]) -> None:
        self._listen()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with suppress(OSError):  # a shepherd must be quicker than its sheep; only root may
            os.setpriority(os.PRIO_PROCESS, 0, self._priority - 10)
        self._control(SUBREAPER, 1)
        record(self._folder, "started", **_me())
        output = Output(f"{self._folder}/output", self._limits["output"])
        try:
            pid, pipe = self._begin(argv)
        except OSError as error:
            record(self._folder, "exit", how="never", code=error.errno or 0)
            return
        how = self._watch(pid, pipe, output)
        self._quiet()
        output.close(pipe)
        code = os.waitstatus_to_exitcode(self._status or 0)
        record(self._folder, "exit", how=how, code=code, left_out=output.left_out)

    def fork_guard(self) -> None:
        """Continue in a child process. The guard waits for it, ends what it left behind, and exits as it did."""
        self._control(SUBREAPER, 1)
        if (pid := os.fork()) == 0:
            return
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        _, status = os.waitpid(pid, 0)
        self._quiet()
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)

    def _listen(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "_told", True))

    def _control(self, what: int, value: int) -> None:
        if sys.platform == "linux":
            self._libc.prctl(what, value, 0, 0, 0)

    def _begin(self, argv: list[str]) -> tuple[int, int]:
        """Fork and exec. An exec that fails is told here: then nothing began."""
        pipe, its_end = os.pipe()
        trouble, its_trouble = os.pipe()
        parent = os.getpid()
        if (pid := os.fork()) == 0:
            try:
                self._become(argv, its_end, parent)
            except OSError as error:
                os.write(its_trouble, str(error.errno).encode())
            finally:
                os._exit(127)
        os.close(its_end)
        os.close(its_trouble)
        if number := os.read(trouble, 16):
            os.waitpid(pid, 0)
            raise OSError(int(number), "The command could not be started.")
        os.close(trouble)
        return pid, pipe

    def _become(self, argv: list[str], its_end: int, parent: int) -> None:
        """In the child: say nothing on our descriptors, be limited, and die with the shepherd."""
        os.setpgid(0, 0)
        for number in (signal.SIGPIPE, signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)  # a worker in the background may ignore some of them
        self._control(_DEATH_SIGNAL, signal.SIGKILL)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
            score.write("500")  # when memory runs out, it goes before the worker
        if os.getppid() != parent:
            os._exit(127)
        os.setpriority(os.PRIO_PROCESS, 0, self._priority)
        if self._pen:
            with open(f"{self._pen}/cgroup.procs", "w") as pen:
                pen.write("0")
        self._speak(its_end)
        wanted = (
            (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, self._limits["file"]),
            (resource.RLIMIT_AS, self._limits["memory"]), (resource.RLIMIT_NPROC, self._limits["tasks"]),
        )  # fmt: skip
        for kind, most in wanted:
            hard = resource.getrlimit(kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (most, most))
        os.execv(argv[0], argv)

    def _speak(self, its_end: int) -> None:
        for end, own in ((os.open(os.devnull, os.O_RDWR), 0), (its_end, 1), (its_end, 2)):
            os.dup2(end, own)

    def _watch(self, pid: int, pipe: int, output: Output) -> str:
        """Listen until the command ends, or must."""
        os.set_blocking(pipe, False)
        deadline = time.monotonic() + self._limits["seconds"]
        disk = Disk([os.getcwd(), f"{self._folder}/tmp"], self._limits["disk"], f"{self._folder}/started")
        pidfd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
        ends, due = [one for one in (pipe, pidfd) if one >= 0], time.monotonic() + TICK
        while True:
            ready = select.select(ends, [], [], TICK)[0]
            if pipe in ready and not output.take(pipe):
                ends.remove(pipe)
            self._reap(pid)
            if self._status is not None:
                return "processes" if self._is_crowded() else "exited"
            if not ready or time.monotonic() >= due:
                due = time.monotonic() + TICK
                if why := self._must_end(deadline, disk):
                    return why

    def _must_end(self, deadline: float, disk: Disk) -> str | None:
        if time.monotonic() >= deadline:
            return "timeout"
        if self._told or os.path.exists(f"{self._folder}/end"):
            return "ended"
        if self._is_crowded() or len(descendants()) > self._limits["processes"]:
            return "processes"
        return "disk" if disk.is_spent() else None

    def _is_crowded(self) -> bool:
        """Whether a fork was refused by the pen."""
        return _content(f"{self._pen}/pids.events").split()[1:] not in ([], ["0"])

    def _reap(self, main: int) -> bool:
        """Collect the dead; whether anybody is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == main:
                    self._status = status
        except ChildProcessError:
            return False

    def _quiet(self) -> None:
        """End everybody. They are stopped first, so that none can fork faster than it is found."""
        while self._reap(-1):
            stopped: set[int] = set()
            while new := set(descendants()) - stopped:
                for pid in new:
                    _signal(pid, signal.SIGSTOP)
                stopped |= new
            for pid in stopped:
                _signal(pid, signal.SIGKILL)
            select.select([], [], [], 0.002)


def _signal(pid: int, kind: signal.Signals) -> None:
    with suppress(OSError):
        os.kill(pid, kind)


def descendants() -> list[int]:
    """Every process that came from this one; whoever lost its parent is our child, as we are the subreaper."""
    found = [os.getpid()]
    for pid in found:  # which grows meanwhile
        found += _children(pid)
    return found[1:]


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        threads = os.listdir(f"/proc/{pid}/task")
        return [int(one) for thread in threads for one in _content(f"/proc/{pid}/task/{thread}/children").split()]
    return []


def _me() -> dict[str, object]:
    """Who this is: with when it began and since which start of the machine, a pid names one process only."""
    began = (_content("/proc/self/stat").rpartition(")")[2].split() or ["unknown"] * 20)[19]
    return {"pid": os.getpid(), "began": began, "boot": _content("/proc/sys/kernel/random/boot_id").strip()}


def _content(path: str) -> str:
    with suppress(OSError), open(path, errors="replace") as file:
        return file.read()
    return ""


def record(folder: str, name: str, **said: object) -> None:
    """Write a small file so that it is there whole and for good, or not at all."""
    temporary = os.path.join(folder, f".{name}")
    with open(temporary, "w") as file:
        file.write("".join(f"{key} {value}\n" for key, value in said.items()))
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, os.path.join(folder, name))
    os.fsync(descriptor := os.open(folder, os.O_RDONLY))
    os.close(descriptor)


def main(descriptors: str, folder: str, pen: str, limits: str, *argv: str) -> None:
    for one in descriptors.split(","):
        os.set_inheritable(int(one), False)
    pairs = (pair.split("=") for pair in limits.split(","))
    shepherd = Shepherd(folder, pen, {name: int(value) for name, value in pairs})
    shepherd.fork_guard()
    shepherd.run(list(argv))
    with suppress(OSError):
        os.rmdir(pen)
