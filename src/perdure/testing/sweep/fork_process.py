"""The process behind `fork_server`: it imports and rehearses the code once, and forks one server per socket.

A server reads requests, one JSON line each, and runs them one after another: in a child process that it forks, or in
itself. Messages of the task are forwarded line by line; `{"pid": ...}` comes first, `{"over": killed, "hung": ...}`
last.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

FORKING, WARM = "forking", "warm"
READY = b"ready\n"


class Channel:
    """Sends messages from a task to the process that started it."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._write = os.write  # the real one: a task may replace `os.write` to count the writes of others

    def send(self, **message: Any) -> None:
        """Send a message, unbuffered. If the process dies half-way through a line, the line is dropped."""
        line = memoryview(msgspec.json.encode(message) + b"\n")
        while line:
            line = line[self._write(self._pipe, line) :]


class ServerConfig(msgspec.Struct):
    """The command-line argument of this process."""

    descriptors: list[int]
    kinds: list[str]
    apps: list[str]
    rehearsal: str


class TaskRequest(msgspec.Struct):
    """One line that a server reads: the function to run, as `module:name`, and its arguments."""

    task: str
    arguments: dict[str, Any]
    timeout: float


def import_app(name: str) -> None:
    """Import a module by its name, or a file by its path."""
    if not name.endswith(".py"):
        importlib.import_module(name)
        return
    spec = importlib.util.spec_from_file_location(Path(name).stem, name)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} cannot be imported")
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def find_task(task: str) -> Callable[..., Any]:
    """A function by `module:name`."""
    module, _, name = task.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def _serve_all(config: ServerConfig) -> None:
    """Import and rehearse once, fork every server from this process, and wait until the last server has exited."""
    connections = [socket.socket(fileno=descriptor) for descriptor in config.descriptors]
    greeting = READY
    try:
        find_task(config.rehearsal)()
        for name in config.apps:
            import_app(name)
    except BaseException:
        greeting = msgspec.json.encode(traceback.format_exc()) + b"\n"
    gc.collect()
    gc.freeze()  # memory shared with the forked processes stays shared
    for connection, kind in zip(connections, config.kinds, strict=True):
        with contextlib.suppress(BrokenPipeError):  # the client has read the error on another socket and has left
            connection.sendall(greeting)
        if greeting == READY and os.fork() == 0:
            for other in connections:
                if other is not connection:
                    other.close()
            _serve(connection, kind)
            os._exit(0)
    for connection in connections:
        connection.close()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _serve(parent: socket.socket, kind: str) -> None:
    with parent.makefile("rb") as requests:
        for line in requests:
            request = msgspec.json.decode(line, type=TaskRequest)
            if kind == FORKING:
                _run_forked(request, parent)
            else:
                _run_here(request, parent)


def _run_forked(request: TaskRequest, parent: socket.socket) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.close(reading)
        parent.close()
        _run_and_exit(request, Channel(writing))
    os.close(writing)
    parent.sendall(msgspec.json.encode({"pid": pid}) + b"\n")
    hung = _forward(reading, parent, time.monotonic() + request.timeout)
    if hung:
        os.killpg(pid, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    over = {"over": os.WIFSIGNALED(status) and not hung, "hung": hung}
    parent.sendall(msgspec.json.encode(over) + b"\n")


def _run_here(request: TaskRequest, parent: socket.socket) -> None:
    """Run a task in the server itself and restore the environment afterwards. A task that hangs ends the server."""

    def give_up(*_: object) -> None:
        parent.sendall(b'{"over":false,"hung":true}\n')
        os._exit(1)

    before = dict(os.environ)
    channel = Channel(parent.fileno())
    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, request.timeout)
    channel.send(pid=os.getpid())
    try:
        channel.send(ended=find_task(request.task)(channel, **request.arguments))
    except Exception:
        channel.send(ended=None, error=traceback.format_exc())
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.environ.clear()
    os.environ.update(before)
    channel.send(over=False, hung=False)


def _run_and_exit(request: TaskRequest, channel: Channel) -> None:
    """Run a task in a forked process; it exits here and never returns into the server's loop."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        channel.send(ended=find_task(request.task)(channel, **request.arguments))
    except BaseException:
        channel.send(ended=None, error=traceback.format_exc())
    finally:
        os._exit(0)


def _forward(pipe: int, parent: socket.socket, until: float) -> bool:
    """Forward whole lines until the pipe is closed, which the death of the child does. True: the time ran out first."""
    torn = b""
    readable = select.poll()
    readable.register(pipe, select.POLLIN)
    while True:
        if not readable.poll(max(0.0, until - time.monotonic()) * 1000):
            return True
        if not (data := os.read(pipe, 1 << 16)):
            return False
        whole, newline, torn = (torn + data).rpartition(b"\n")
        parent.sendall(whole + newline)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _serve_all(msgspec.json.decode(sys.argv[1], type=ServerConfig))
