"""The command runner: a small process that starts one command, outlives the worker, and records how the command ended.

    lock      inherited from the worker, which took it before the runner existed; held until the runner ends
    started   the identity of the runner, synced: from here on the command may have begun
    exec      the command, in the sandbox; its output goes to `output`
    end       the command has ended by itself, by a limit, or because a file `end` was written: then it first gets
              SIGTERM and `GRACE` seconds
    quiet     the processes that it left behind are ended too: every descendant becomes a child of the runner
    exit      how it ended, synced, written whole or not at all

Lock free and no `started`: it never began and never will. `exit`: the outcome. Lock held: it is running. Lock free and
`started` without `exit`: the runner was killed or the machine stopped, and the outcome is unknown.

The runner has a guard: its parent process, which only waits for it. If the runner is killed, everything that the
command started becomes a child of the guard, and the guard ends it before it releases the lock. The death signal alone
reaches the command but not its children, except in a process namespace.

Known secrets in the output are replaced before they reach the file. A pipe brings them, and the runner begins only when
it has all of them.

It imports nothing but a little of the standard library, because every command waits for it. The lock and the worker's
liveness descriptor stay with the runner: a command that had them could unlock both.
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

TYPE_CHECKING = False  # `typing` would cost every command time
if TYPE_CHECKING:
    from perdure.secrets.stream import RedactionStream

TICK, TAIL, GRACE = 0.05, 8192, 0.3
SUBREAPER, _DEATH_SIGNAL = 36, 1


class Output:
    """The output of a command: up to a limit into the file, and the last lines of the rest."""

    def __init__(self, path: str, limit: int, redaction: RedactionStream | None = None) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._room = limit
        self._tail = b""
        self._redaction = redaction
        self.left_out = 0

    def read_from(self, pipe: int) -> bool:
        """Read once; returns whether more may come."""
        try:
            data = os.read(pipe, 1 << 16)
        except BlockingIOError:
            return False
        self._keep(data if self._redaction is None else self._redaction.feed(data))
        return bool(data)

    def _keep(self, data: bytes) -> None:
        kept, rest = data[: self._room], data[self._room :]
        self._room -= len(kept)
        self._write(kept)
        self._tail = (self._tail + rest)[-TAIL:]
        self.left_out += len(rest)

    def close(self, pipe: int) -> None:
        while self.read_from(pipe):
            pass
        if self._redaction is not None:
            self._keep(self._redaction.end())
        if self.left_out > len(self._tail):
            self._write(f"\n… {self.left_out - len(self._tail):,} bytes left out …\n".encode())
        self._write(self._tail)
        os.fsync(self._file)

    def _write(self, content: bytes) -> None:
        """A full disk costs output, but not the record of how the command ended."""
        try:
            while content:
                content = content[os.write(self._file, content) :]
        except OSError:
            self.left_out += len(content)


class DiskUsage:
    """How much a command wrote into its folders. A cheap check runs often, the exact one only when that is exceeded."""

    def __init__(self, folders: list[str], limit: int, since: str) -> None:
        self._folders = [folder for folder in folders if os.path.isdir(folder)]
        self._free = [_free(folder) for folder in self._folders]
        self._limit = min([limit, *(free // 2 for free in self._free)])
        self._since = os.stat(since).st_ctime_ns

    def is_exceeded(self) -> bool:
        before_and_now = zip(self._free, map(_free, self._folders), strict=True)
        if all(before - now <= self._limit for before, now in before_and_now):
            return False
        exceeded = sum(self._written(folder) for folder in self._folders) > self._limit
        if not exceeded:  # written by another process: count from here
            self._free = [_free(folder) for folder in self._folders]
        return exceeded

    def _written(self, folder: str) -> int:
        """The disk space of what changed since the command began."""
        total = 0
        for path in (f"{folder_path}/{name}" for folder_path, _, names in os.walk(folder) for name in names):
            with suppress(OSError):
                there = os.lstat(path)
                total += there.st_blocks * 512 if there.st_ctime_ns >= self._since else 0
        return total


def _free(folder: str) -> int:
    with suppress(OSError):
        there = os.statvfs(folder)
        return there.f_bavail * there.f_frsize
    return 0


class CommandRunner:
    """One command, from its record to its end."""

    redaction: RedactionStream | None = None

    def __init__(self, folder: str, cgroup: str, limits: dict[str, int]) -> None:
        self._folder = folder
        self._cgroup = cgroup
        self._limits = limits
        self._stop_requested = False
        self._priority = os.getpriority(os.PRIO_PROCESS, 0)
        self._status: int | None = None
        self._libc = ctypes.CDLL(None)

    def run(self, argv: list[str]) -> None:
        self._handle_stop()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with suppress(OSError):  # the runner must be faster than the command; only root may raise its priority
            os.setpriority(os.PRIO_PROCESS, 0, self._priority - 10)
        self._control(SUBREAPER, 1)
        record(self._folder, "started", **_identity())
        output = Output(f"{self._folder}/output", self._limits["output"], self.redaction)
        try:
            pid, pipe = self._start(argv)
        except OSError as error:
            record(self._folder, "exit", how="never", code=error.errno or 0)
            return
        how = self._wait(pid, pipe, output)
        if how == "ended":
            self._terminate(pid, pipe, output)
        self._end_descendants()
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
        self._end_descendants()
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)

    def _handle_stop(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "_stop_requested", True))

    def _control(self, what: int, value: int) -> None:
        if sys.platform == "linux":
            self._libc.prctl(what, value, 0, 0, 0)

    def _start(self, argv: list[str]) -> tuple[int, int]:
        """Fork and exec. If exec fails, this raises: then nothing began."""
        pipe, write_end = os.pipe()
        error_pipe, error_end = os.pipe()
        parent = os.getpid()
        if (pid := os.fork()) == 0:
            try:
                self._exec(argv, write_end, parent)
            except OSError as error:
                os.write(error_end, str(error.errno).encode())
            finally:
                os._exit(127)
        os.close(write_end)
        os.close(error_end)
        if number := os.read(error_pipe, 16):
            os.waitpid(pid, 0)
            raise OSError(int(number), "The command could not be started.")
        os.close(error_pipe)
        return pid, pipe

    def _exec(self, argv: list[str], write_end: int, parent: int) -> None:
        """In the child: drop our descriptors, apply the limits, and die with the runner."""
        os.setpgid(0, 0)
        for number in (signal.SIGPIPE, signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)  # a worker in the background may ignore some of these
        self._control(_DEATH_SIGNAL, signal.SIGKILL)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
            score.write("500")  # when memory runs out, it is killed before the worker
        if os.getppid() != parent:
            os._exit(127)
        os.setpriority(os.PRIO_PROCESS, 0, self._priority)
        if self._cgroup:
            with open(f"{self._cgroup}/cgroup.procs", "w") as cgroup:
                cgroup.write("0")
        self._set_streams(write_end)
        wanted = (
            (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, self._limits["file"]),
            (resource.RLIMIT_AS, self._limits["memory"]), (resource.RLIMIT_NPROC, self._limits["tasks"]),
        )  # fmt: skip
        for kind, most in wanted:
            hard = resource.getrlimit(kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (most, most))
        os.execv(argv[0], argv)

    def _set_streams(self, write_end: int) -> None:
        for end, own in ((os.open(os.devnull, os.O_RDWR), 0), (write_end, 1), (write_end, 2)):
            os.dup2(end, own)

    def _wait(self, pid: int, pipe: int, output: Output) -> str:
        """Read output until the command ends or must be ended."""
        os.set_blocking(pipe, False)
        deadline = time.monotonic() + self._limits["seconds"]
        disk = DiskUsage([os.getcwd(), f"{self._folder}/tmp"], self._limits["disk"], f"{self._folder}/started")
        pidfd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
        ends, due = [one for one in (pipe, pidfd) if one >= 0], time.monotonic() + TICK
        while True:
            ready = select.select(ends, [], [], TICK)[0]
            if pipe in ready and not output.read_from(pipe):
                ends.remove(pipe)
            self._reap(pid)
            if self._status is not None:
                return "processes" if self._hit_process_limit() else "exited"
            if not ready or time.monotonic() >= due:
                due = time.monotonic() + TICK
                if why := self._stop_reason(deadline, disk):
                    return why

    def _stop_reason(self, deadline: float, disk: DiskUsage) -> str | None:
        if time.monotonic() >= deadline:
            return "timeout"
        if self._stop_requested or os.path.exists(f"{self._folder}/end"):
            return "ended"
        if self._hit_process_limit() or len(descendants()) > self._limits["processes"]:
            return "processes"
        return "disk" if disk.is_exceeded() else None

    def _hit_process_limit(self) -> bool:
        """Whether the control group refused a fork."""
        return _content(f"{self._cgroup}/pids.events").split()[1:] not in ([], ["0"])

    def _reap(self, main: int) -> bool:
        """Collect dead children; returns whether any are left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == main:
                    self._status = status
        except ChildProcessError:
            return False

    def _terminate(self, main: int, pipe: int, output: Output) -> None:
        """Ask the command and its children to end. The sandbox is not asked: it would take them with it at once."""
        for pid in descendants():
            if _content(f"/proc/{pid}/comm").strip() != "bwrap":
                _signal(pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE
        while self._reap(main) and time.monotonic() < deadline:
            output.read_from(pipe)
            select.select([], [], [], 0.01)

    def _end_descendants(self) -> None:
        """End all descendants. They are stopped first, so that none can fork faster than it is found."""
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
    """Every descendant of this process; an orphan becomes our child, because we are the subreaper."""
    found = [os.getpid()]
    for pid in found:  # the list grows meanwhile
        found += _children(pid)
    return found[1:]


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        threads = os.listdir(f"/proc/{pid}/task")
        return [int(one) for thread in threads for one in _content(f"/proc/{pid}/task/{thread}/children").split()]
    return []


def _identity() -> dict[str, object]:
    """The identity of this process: with its start time and the boot id, a pid names one process only."""
    began = (_content("/proc/self/stat").rpartition(")")[2].split() or ["unknown"] * 20)[19]
    return {"pid": os.getpid(), "began": began, "boot": _content("/proc/sys/kernel/random/boot_id").strip()}


def _content(path: str) -> str:
    with suppress(OSError), open(path, errors="replace") as file:
        return file.read()
    return ""


def record(folder: str, name: str, **data: object) -> None:
    """Write a small file durably, whole or not at all."""
    temporary = os.path.join(folder, f".{name}")
    with open(temporary, "w") as file:
        file.write("".join(f"{key} {value}\n" for key, value in data.items()))
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, os.path.join(folder, name))
    os.fsync(descriptor := os.open(folder, os.O_RDONLY))
    os.close(descriptor)


def redaction_from(pipe: int) -> RedactionStream:
    """What replaces known secrets in the output. Without all of them nothing begins."""
    sys.path.append(__file__.rpartition("/perdure/")[0])
    from perdure.secrets.stream import receive_markers

    if (found := receive_markers(pipe)) is None:
        sys.exit("the worker has died before it gave the secrets to replace")
    return found


def main(descriptors: str, folder: str, cgroup: str, limits: str, *argv: str) -> None:
    for one in descriptors.split(","):
        os.set_inheritable(int(one), False)
    pairs = (pair.split("=") for pair in limits.split(","))
    runner = CommandRunner(folder, cgroup, {name: int(value) for name, value in pairs})
    for pipe in descriptors.split(",")[2:]:
        runner.redaction = redaction_from(int(pipe))
    runner.fork_guard()
    runner.run(list(argv))
    with suppress(OSError):
        os.rmdir(cgroup)
