"""Fork servers: warm processes that fork a child for each task; the child may be killed or stopped.

One process imports the code under test and rehearses it, opens no store and keeps no thread. The servers are its
children and the processes of the tasks are theirs, so a task inherits code and nothing else. A task is one function,
`task(channel, **arguments)`. It sends messages through a pipe, unbuffered: what it sent before it died is received.
Arguments and messages are JSON.

A server runs one task at a time; a test that needs two at once starts two servers. Where nothing is to be killed, a
server that does not fork runs the task in itself (`WARM`), which is twice as fast.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from perdure.errors import ConfigError
from perdure.testing.proxy import wait_until
from perdure.testing.sweep.fork_process import READY, WARM, ServerConfig

REHEARSAL = "perdure.testing.sweep.trial:rehearse"
Task = str | Callable[..., Any]


class ProcessResult(msgspec.Struct, frozen=True):
    """How a process ended: with a result, with an error, killed, or hung. `messages` are those it sent."""

    messages: list[dict[str, Any]]
    result: Any = None
    error: str | None = None
    killed: bool = False
    hung: bool = False

    def values(self, key: str) -> list[Any]:
        """The values that were sent under this key, in order."""
        return [message[key] for message in self.messages if key in message]


class ChildProcess:
    """A running task."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server
        self.messages: list[dict[str, Any]] = []
        self.ended: ProcessResult | None = None
        self.pid: int = server.receive()["pid"]

    def wait_for(self, key: str) -> Any:
        """Wait for a message with this key and return its value; None if the process ends first."""
        while self.ended is None:
            message = self._server.receive()
            if "over" in message:
                self._end(message)
                break
            self.messages.append(message)
            if key in message:
                return message[key]
        return None

    def wait(self) -> ProcessResult:
        """Wait until the process has ended."""
        self.wait_for("")
        assert self.ended is not None
        return self.ended

    def _end(self, over: dict[str, Any]) -> None:
        last = next((message for message in self.messages if "ended" in message), {})
        self.ended = ProcessResult(self.messages, last.get("ended"), last.get("error"), over["over"], over["hung"])

    def wait_stopped(self) -> None:
        """Wait until the kernel has stopped the process."""
        wait_until(lambda: _state(self.pid) in "TtZX", "the process has stopped")

    def resume(self) -> None:
        """Continue a stopped process (SIGCONT)."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)


class ForkServer:
    """One of `fork_servers`."""

    def __init__(self, kind: str, connection: socket.socket, restart: Callable[[], list[socket.socket]]) -> None:
        self._kind = kind
        self._restart = restart
        self._open(connection)

    def _open(self, connection: socket.socket) -> None:
        self._socket, self._lines, self._gone = connection, connection.makefile("rb"), False
        if (ready := self._lines.readline()) != READY:
            self.close()
            raise ConfigError(f"The app cannot be imported: {msgspec.json.decode(ready) if ready else 'it exited'}")

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def begin(self, task: Task, /, *, timeout: float = 180.0, **arguments: Any) -> ChildProcess:
        """Start a task. A process that runs longer than `timeout` seconds is killed and counts as hung."""
        if self._gone:
            self.close()
            self._open(*self._restart())
        request = {"task": task_name(task), "arguments": arguments, "timeout": timeout}
        self._socket.sendall(msgspec.json.encode(request) + b"\n")
        return ChildProcess(self)

    def run(self, task: Task, /, *, timeout: float = 180.0, **arguments: Any) -> ProcessResult:
        """Run a task until its process has ended, however it ends."""
        return self.begin(task, timeout=timeout, **arguments).wait()

    def call(self, task: Task, /, *, timeout: float = 180.0, **arguments: Any) -> Any:
        """Run a task that must return: its result, or its error raised here."""
        ended = self.run(task, timeout=timeout, **arguments)
        if ended.error or ended.killed or ended.hung:
            raise RuntimeError(f"{task_name(task)} hung={ended.hung} killed={ended.killed}\n{ended.error}")
        return ended.result

    def receive(self) -> dict[str, Any]:
        if not (line := self._lines.readline()):
            raise RuntimeError("the fork server is gone")
        message: dict[str, Any] = msgspec.json.decode(line)
        self._gone = self._kind == WARM and message.get("hung", False)  # a task that hung in it has ended it
        return message


@contextmanager
def fork_servers(
    *kinds: str, apps: Sequence[str] = (), rehearsal: str = REHEARSAL, environment: Mapping[str, str] | None = None
) -> Iterator[list[ForkServer]]:
    """Servers of these kinds. `apps` are modules, by name or path, that are imported before the fork.

    `rehearsal` is a function that runs first in the process from which all servers are forked; it must leave no thread.
    `environment` is set for that process, beside what it inherits.
    """
    with ExitStack() as stack:

        def start(*kinds: str) -> list[socket.socket]:
            ours, theirs = zip(*(socket.socketpair() for _ in kinds), strict=True)
            stack.callback(_start(theirs, kinds, apps, rehearsal, environment or {}).wait)
            for connection in ours:
                stack.callback(connection.close)
            return list(ours)

        servers: list[ForkServer] = []
        try:
            for kind, connection in zip(kinds, start(*kinds), strict=True):
                servers.append(ForkServer(kind, connection, partial(start, kind)))
            yield servers
        finally:
            for server in servers:  # a closed socket ends its server; the stack waits for the processes
                server.close()


def _start(
    connections: Sequence[socket.socket],
    kinds: Sequence[str],
    apps: Sequence[str],
    rehearsal: str,
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    descriptors = [connection.fileno() for connection in connections]
    config = msgspec.json.encode(ServerConfig(descriptors, list(kinds), list(apps), rehearsal)).decode()
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    command = [sys.executable, "-P", "-m", "perdure.testing.sweep.fork_process", config]
    inherited = os.environ | environment | {"PYTHONPATH": paths}
    process = subprocess.Popen(command, pass_fds=descriptors, process_group=0, env=inherited)
    for connection in connections:
        connection.close()
    return process


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def task_name(task: Task) -> str:
    """The name under which another process finds a function: `module:name`."""
    if isinstance(task, str):
        return task
    if "<" in task.__qualname__ or "." in task.__qualname__:
        raise ConfigError(f"{task.__qualname__} must be a function of a module: another process looks it up.")
    if task.__module__ == "__main__":
        raise ConfigError(f"{task.__qualname__} must be in a module that can be imported, not in the script.")
    return f"{task.__module__}:{task.__qualname__}"
