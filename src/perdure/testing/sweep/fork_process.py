"""The fork servers' own process: it imports and rehearses once, and forks a server for each line that it was given.

A server reads requests, one JSON line each, and runs them one after the other: in a life that it forks, or in itself.
What a life says is passed on line by line; `{"pid": ...}` comes first, and `{"over": killed, "hung": ...}` last.
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


class Voice:
    """A life's way to be heard."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._write = os.write  # the real one: a life may count the writes of others

    def say(self, **words: Any) -> None:
        """Say something now. A line torn by death was not said."""
        line = memoryview(msgspec.json.encode(words) + b"\n")
        while line:
            line = line[self._write(self._pipe, line) :]


class Told(msgspec.Struct):
    """What the process from which the servers are forked is told."""

    descriptors: list[int]
    kinds: list[str]
    apps: list[str]
    rehearsal: str


class Request(msgspec.Struct):
    task: str
    arguments: dict[str, Any]
    patience: float


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


def _serve_all(told: Told) -> None:
    """Import and rehearse once, fork every server from there, and stay until the last of them has ended."""
    lines = [socket.socket(fileno=descriptor) for descriptor in told.descriptors]
    said = READY
    try:
        find_task(told.rehearsal)()
        for name in told.apps:
            import_app(name)
    except BaseException:
        said = msgspec.json.encode(traceback.format_exc()) + b"\n"
    gc.collect()
    gc.freeze()  # what is shared with the lives stays shared
    for line, kind in zip(lines, told.kinds, strict=True):
        with contextlib.suppress(BrokenPipeError):  # who was told on another line that nothing came of it has left
            line.sendall(said)
        if said == READY and os.fork() == 0:
            for other in lines:
                if other is not line:
                    other.close()
            _serve(line, kind)
            os._exit(0)
    for line in lines:
        line.close()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _serve(parent: socket.socket, kind: str) -> None:
    with parent.makefile("rb") as requests:
        for line in requests:
            request = msgspec.json.decode(line, type=Request)
            if kind == FORKING:
                _begin(request, parent)
            else:
                _stay(request, parent)


def _begin(request: Request, parent: socket.socket) -> None:
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.close(heard)
        parent.close()
        _live(request, Voice(said))
    os.close(said)
    parent.sendall(msgspec.json.encode({"pid": pid}) + b"\n")
    hung = _forward(heard, parent, time.monotonic() + request.patience)
    if hung:
        os.killpg(pid, signal.SIGKILL)
    os.close(heard)
    _, status = os.waitpid(pid, 0)
    over = {"over": os.WIFSIGNALED(status) and not hung, "hung": hung}
    parent.sendall(msgspec.json.encode(over) + b"\n")


def _stay(request: Request, parent: socket.socket) -> None:
    """Run a task right here, and leave the environment as it was. One that hangs is the end of this server."""

    def give_up(*_: object) -> None:
        parent.sendall(b'{"over":false,"hung":true}\n')
        os._exit(1)

    before = dict(os.environ)
    voice = Voice(parent.fileno())
    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, request.patience)
    voice.say(pid=os.getpid())
    try:
        voice.say(ended=find_task(request.task)(voice, **request.arguments))
    except Exception:
        voice.say(ended=None, error=traceback.format_exc())
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.environ.clear()
    os.environ.update(before)
    voice.say(over=False, hung=False)


def _live(request: Request, voice: Voice) -> None:
    """The whole life; it ends here and never returns into the server's loop."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        voice.say(ended=find_task(request.task)(voice, **request.arguments))
    except BaseException:
        voice.say(ended=None, error=traceback.format_exc())
    finally:
        os._exit(0)


def _forward(pipe: int, parent: socket.socket, until: float) -> bool:
    """Pass whole lines on until the pipe is closed, which death does. True: patience was over first."""
    torn = b""
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return True
        if not (data := os.read(pipe, 1 << 16)):
            return False
        whole, newline, torn = (torn + data).rpartition(b"\n")
        parent.sendall(whole + newline)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _serve_all(msgspec.json.decode(sys.argv[1], type=Told))
