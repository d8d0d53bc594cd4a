"""The processes of trials: none outlives the evaluation, however it ends.

start     a launcher asks the kernel for a death signal, checks that its parent is still there, and becomes the command
mark      each process has the uid of its evaluation in its environment, and so have the processes that it starts
resume    the marked processes that a killed evaluation left are killed before a trial uses their paths again

The kernel sends the death signal when the *thread* that started a process ends, so a trial starts its processes in the
thread that waits for them. Servers that trials share outlive that thread; they end when their standard input is closed.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from perdure.errors import PerdureError
from perdure.testing.proxy import wait_until

MARK = "PERDURE_EVALUATION"
LAUNCH = """
import ctypes, os, sys
if ctypes.CDLL(None).prctl(1, 9, 0, 0, 0) or os.getppid() != int(sys.argv[1]):
    sys.exit("the process cannot be made to end with the evaluation")
os.execvp(sys.argv[2], sys.argv[2:])
"""
READY = 120.0  # seconds until a process says its first line
LIMIT = 3600.0  # seconds for one process of a trial

_mark = ""


class TrialFailed(PerdureError):
    """A process of a trial ended with an error that it should not have."""

    code = "evaluation.trial-failed"
    hint = "Its output is in the folder of the trial, or above."
    retry = False


def set_mark(uid: str) -> None:
    """Mark every process that is started from now on as one of this evaluation."""
    global _mark
    _mark = uid


def marked(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment with the mark of the evaluation that runs, if one does."""
    given = dict(os.environ if environment is None else environment)
    return given | {MARK: _mark} if _mark else given


def start(command: Sequence[str], *, env: Mapping[str, str] | None = None, **more: Any) -> subprocess.Popen[Any]:
    """Start a process that is killed when this thread or this process ends; in a group of its own."""
    launched = [sys.executable, "-I", "-S", "-c", LAUNCH, str(os.getpid()), *command]
    return subprocess.Popen(launched, env=marked(env), process_group=0, **more)


def run(command: Sequence[str], *, env: Mapping[str, str] | None = None, limit: float = LIMIT) -> bytes:
    """Run a process to its end, which must be without an error; returns what it printed."""
    with start(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            printed: bytes = process.communicate(timeout=limit)[0]
        finally:
            process.kill()
    if process.returncode:
        raise TrialFailed(f"A process of the trial ended with {process.returncode}.")
    return printed


def first_line(process: subprocess.Popen[Any], what: str, limit: float = READY) -> Any:
    """The next line that a process prints, or its end as an empty line. A silent one is killed at the limit."""
    stream: IO[Any] | None = process.stdout
    assert stream is not None
    readable = select.poll()
    readable.register(stream, select.POLLIN)
    if not readable.poll(limit * 1000):
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        raise TrialFailed(f"{what} said nothing for {limit:g} s.")
    return stream.readline()


def kill_group(process: subprocess.Popen[Any]) -> None:
    """Kill a process of `start` and the processes that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def left_over(uid: str) -> list[int]:
    """The processes with the mark of this evaluation that still run."""
    wanted, found = f"{MARK}={uid}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid()]


def kill_left_over(uid: str) -> int:
    """Kill what an earlier process of this evaluation left; returns how many processes there were."""
    killed: set[int] = set()

    def none_is_left() -> bool:
        found = left_over(uid)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed.update(found)
        return not found

    if uid:
        wait_until(none_is_left, "the processes of the interrupted trials have ended")
    return len(killed)
