"""A supervised process: its own process group, ended by the kernel when the supervisor dies.

    start    `posix_spawn` in a new process group. A small program asks the kernel to kill this process when the
             supervisor dies, checks that it has not died already, and becomes the command
    signal   through a pidfd, which never names another process
    end      what is left of its process group is killed before the process is reaped: until then no other group can
             have its number

Command runners and tools that must not die with a worker are in sessions of their own (`setsid`), hence not in this
group. The death signal comes from the thread that started the process, so processes are started in the main thread.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

LAUNCH = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    print(f"{sys.argv[2]} cannot be started: {error.strerror}.", file=sys.stderr, flush=True)
    os._exit(127)
"""
DEFAULT_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)


class SupervisedProcess:
    """A process that was started, until it is reaped."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int] = ()) -> None:
        words = [sys.executable, "-I", "-S", "-c", LAUNCH, str(os.getpid()), *command]
        nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        handed_on = [(os.POSIX_SPAWN_DUP2, one, one) for one in descriptors]  # onto itself: it is kept open
        self.pid = os.posix_spawn(
            sys.executable, words, environment,
            file_actions=[nothing, *handed_on], setpgroup=0, setsigmask=(), setsigdef=DEFAULT_SIGNALS,
        )  # fmt: skip
        self._pidfd = os.pidfd_open(self.pid)

    def terminate(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGTERM)

    def kill(self) -> None:
        """Kill it, and what it started in its process group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> int:
        """Its exit code, or the negative number of a signal. It has ended."""
        self.kill()
        _, status = os.waitpid(self.pid, 0)
        os.close(self._pidfd)
        return os.waitstatus_to_exitcode(status)


def ended_processes() -> list[int]:
    """The children of this process that have ended and are not reaped, the first only: reap it and call again."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    return [] if found is None else [found.si_pid]
