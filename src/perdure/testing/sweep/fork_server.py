"""Lives: processes that are born by forking a warm server, may be killed or stopped, and tell what they did until then.

One process imports the code under test and rehearses it, opens no store and keeps no thread; the servers are its
children, and the lives are theirs, so what a life inherits is code and nothing else. A life runs one function,
`task(voice, **arguments)`, and speaks through a pipe, unbuffered: what was said before it died is what its parent
hears. Arguments and words are JSON.

One server has one life at a time; who needs two at once starts two servers. Where nothing is to be killed, a server
that does not fork runs the task in itself (`WARM`): what is warm is twice as quick.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from perdure.errors import ConfigError
from perdure.testing.proxy import wait_until
from perdure.testing.sweep.fork_process import READY, WARM, Told

REHEARSAL = "perdure.testing.sweep.trial:rehearse"
Task = str | Callable[..., Any]


class Ended(msgspec.Struct, frozen=True):
    """How a life ended: its result, the error that it ended with, or the death it died."""

    said: list[dict[str, Any]]
    result: Any = None
    error: str | None = None
    killed: bool = False
    hung: bool = False

    def told(self, word: str) -> list[Any]:
        """What was said under this word, in order."""
        return [line[word] for line in self.said if word in line]


class Life:
    """A life that goes on."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server
        self.said: list[dict[str, Any]] = []
        self.ended: Ended | None = None
        self.pid: int = server.hear()["pid"]

    def until(self, word: str) -> Any:
        """Listen until something is said under this word; None if the life ends before."""
        while self.ended is None:
            line = self._server.hear()
            if "over" in line:
                self._end(line)
                break
            self.said.append(line)
            if word in line:
                return line[word]
        return None

    def end(self) -> Ended:
        """Listen until the end."""
        self.until("")
        assert self.ended is not None
        return self.ended

    def _end(self, line: dict[str, Any]) -> None:
        last = next((said for said in self.said if "ended" in said), {})
        self.ended = Ended(self.said, last.get("ended"), last.get("error"), line["over"], line["hung"])

    def wait_stopped(self) -> None:
        """Wait until the kernel has stopped it."""
        wait_until(lambda: _state(self.pid) in "TtZX", "the life has stopped")

    def go_on(self) -> None:
        """Let a stopped life go on."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)


class ForkServer:
    """One of `fork_servers`."""

    def __init__(self, kind: str, line: socket.socket, again: Callable[[], list[socket.socket]]) -> None:
        self._kind = kind
        self._again = again
        self._open(line)

    def _open(self, line: socket.socket) -> None:
        self._socket, self._lines, self._gone = line, line.makefile("rb"), False
        if (ready := self._lines.readline()) != READY:
            self.close()
            raise ConfigError(f"The app cannot be imported: {msgspec.json.decode(ready) if ready else 'it exited'}")

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def begin(self, task: Task, /, *, patience: float = 60.0, **arguments: Any) -> Life:
        """Begin a life that runs a function; with patience over, it is killed and counts as hung."""
        if self._gone:
            self.close()
            self._open(*self._again())
        request = {"task": task_name(task), "arguments": arguments, "patience": patience}
        self._socket.sendall(msgspec.json.encode(request) + b"\n")
        return Life(self)

    def run(self, task: Task, /, *, patience: float = 60.0, **arguments: Any) -> Ended:
        """A whole life."""
        return self.begin(task, patience=patience, **arguments).end()

    def call(self, task: Task, /, *, patience: float = 60.0, **arguments: Any) -> Any:
        """The same for a task that is to return: its result, or its error raised here."""
        ended = self.run(task, patience=patience, **arguments)
        if ended.error or ended.killed or ended.hung:
            raise RuntimeError(f"{task_name(task)} hung={ended.hung} killed={ended.killed}\n{ended.error}")
        return ended.result

    def hear(self) -> dict[str, Any]:
        if not (line := self._lines.readline()):
            raise RuntimeError("the fork server is gone")
        heard: dict[str, Any] = msgspec.json.decode(line)
        self._gone = self._kind == WARM and heard.get("hung", False)  # a task that hung in it took it along
        return heard


@contextmanager
def fork_servers(*kinds: str, apps: Sequence[str] = (), rehearsal: str = REHEARSAL) -> Iterator[list[ForkServer]]:
    """Servers of these kinds. `apps` are modules, by name or path, that every life finds imported.

    `rehearsal` is a function that the process from which all are forked runs first; it must leave no thread.
    """
    with ExitStack() as stack:

        def start(*kinds: str) -> list[socket.socket]:
            lines, theirs = zip(*(socket.socketpair() for _ in kinds), strict=True)
            stack.callback(_start(theirs, kinds, apps, rehearsal).wait)
            for line in lines:
                stack.callback(line.close)
            return list(lines)

        servers: list[ForkServer] = []
        try:
            for kind, line in zip(kinds, start(*kinds), strict=True):
                servers.append(ForkServer(kind, line, partial(start, kind)))
            yield servers
        finally:
            for server in servers:  # each is waited for after it has heard of the end
                server.close()


def _start(
    lines: Sequence[socket.socket], kinds: Sequence[str], apps: Sequence[str], rehearsal: str
) -> subprocess.Popen[bytes]:
    descriptors = [line.fileno() for line in lines]
    told = msgspec.json.encode(Told(descriptors, list(kinds), list(apps), rehearsal)).decode()
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    command, environment = (
        [sys.executable, "-P", "-m", "perdure.testing.sweep.fork_process", told],
        os.environ | {"PYTHONPATH": paths},
    )
    process = subprocess.Popen(command, pass_fds=descriptors, process_group=0, env=environment)
    for line in lines:
        line.close()
    return process


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def task_name(task: Task) -> str:
    """How another process finds a function: `module:name`."""
    if isinstance(task, str):
        return task
    if "<" in task.__qualname__ or "." in task.__qualname__:
        raise ConfigError(f"{task.__qualname__} must be a function of a module: another process looks it up.")
    if task.__module__ == "__main__":
        raise ConfigError(f"{task.__qualname__} must be in a module that can be imported, not in the script.")
    return f"{task.__module__}:{task.__qualname__}"
