"""A fork server: a process that has imported everything forks a child for each trial, and the child may be killed.

The server opens no store and starts no thread, so what the child inherits is code and nothing else. A child runs one
function of one module, `task(child, **arguments)`, and says what it has to say through a pipe, unbuffered: what was
said before it died is what its parent hears. Arguments and answers are JSON.

Every child has a process group of its own; one that outlives its patience is killed with all that it started.
Where nothing is to be killed the same server runs tasks in itself (`forking=False`): a warm judge judges faster.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

from perdure.store.statements import load

T = TypeVar("T")

PRELOADED = (
    "perdure.artifacts.directory",
    "perdure.store.databases.files",
    "perdure.store.databases.postgres",
    "perdure.store.databases.sqlite",
    "perdure.store.store",
    "tests.crash.lives",
)
REHEARSED = "tests.crash.workload"


class Ended(msgspec.Struct, frozen=True):
    """How a child ended, and everything it said until then."""

    said: list[Any]
    killed: bool
    hung: bool
    error: str | None
    result: Any

    def told(self, key: str) -> list[Any]:
        """What was said under this key, in order."""
        return [line[key] for line in self.said if key in line]


class Child:
    """A child's way to be heard."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._write = os.write  # the real one: a trial may count the writes of others

    def say(self, **words: Any) -> None:
        """Say something now. A line torn by death was not said."""
        line = memoryview(msgspec.json.encode(words) + b"\n")
        while line:
            line = line[self._write(self._pipe, line) :]


class ForkServer:
    """Runs inside `with`. One trial at a time; `Lanes` has several."""

    def __init__(self, *, forking: bool = True) -> None:
        self._how = "fork" if forking else "stay"

    def __enter__(self) -> Self:
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.crash.forkserver", str(theirs.fileno()), self._how]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], process_group=0)
        self._answers = self._socket.makefile("rb")
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._socket.close()
        self._process.wait()

    def run(self, task: Callable[..., Any], /, *, patience: float = 60.0, **arguments: Any) -> Ended:
        """Run `task(child, **arguments)` in a fresh child and wait for its end, whatever that is."""
        request = {"task": f"{task.__module__}:{task.__qualname__}", "arguments": arguments, "patience": patience}
        self._socket.sendall(msgspec.json.encode(request) + b"\n")
        if not (answer := self._answers.readline()):
            raise RuntimeError("the fork server is gone")
        return msgspec.json.decode(answer, type=Ended)

    def call(self, task: Callable[..., Any], /, *, patience: float = 60.0, **arguments: Any) -> Any:
        """The same for a task that is to return: its result, or its error raised here."""
        ended = self.run(task, patience=patience, **arguments)
        if ended.error or ended.killed or ended.hung:
            raise RuntimeError(f"{task.__qualname__} hung={ended.hung} killed={ended.killed}\n{ended.error}")
        return ended.result


class Lane(NamedTuple):
    """A server that forks, for whoever is killed, and one that stays, for whoever looks at what was left."""

    trials: ForkServer
    judges: ForkServer


class Lanes:
    """As many lanes as there are processors, each busy with one trial at a time."""

    def __init__(self, count: int = 0) -> None:
        self.count = count or min(os.cpu_count() or 1, 4)
        self._stack = ExitStack()
        self._free: SimpleQueue[Lane] = SimpleQueue()

    def __enter__(self) -> Self:
        for _ in range(self.count):
            servers = [self._stack.enter_context(ForkServer(forking=forking)) for forking in (True, False)]
            self._free.put(Lane(*servers))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def each(self, trials: Sequence[Callable[[Lane], T]]) -> list[T]:
        """Run every trial, on whichever lane is free; results in the order of the trials."""

        def one(trial: Callable[[Lane], T]) -> T:
            lane = self._free.get()
            try:
                return trial(lane)
            finally:
                self._free.put(lane)

        with ThreadPoolExecutor(self.count) as pool:
            return list(pool.map(one, trials))

    def run(self, task: Callable[..., Any], /, **arguments: Any) -> Ended:
        def trial(lane: Lane) -> Ended:
            return lane.trials.run(task, **arguments)

        return self.each([trial])[0]

    def call(self, task: Callable[..., Any], /, **arguments: Any) -> Any:
        return self.each([lambda lane: lane.trials.call(task, **arguments)])[0]


class _Request(msgspec.Struct):
    task: str
    arguments: dict[str, Any]
    patience: float


def _serve(descriptor: int, how: str) -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    for dialect in ("sqlite", "postgres"):
        load(dialect)  # every child would parse them again
    for _ in range(3):
        importlib.import_module(REHEARSED).rehearse()  # code that has run is not copied again in every child
    gc.collect()
    gc.freeze()  # what is shared with the children stays shared
    with socket.socket(fileno=descriptor) as parent, parent.makefile("rb") as requests:
        for line in requests:
            request = msgspec.json.decode(line, type=_Request)
            module, _, name = request.task.partition(":")
            task = getattr(importlib.import_module(module), name)
            ended = _trial(task, request, parent) if how == "fork" else _inside(task, request)
            parent.sendall(msgspec.json.encode(ended) + b"\n")


def _trial(task: Callable[..., Any], request: _Request, parent: socket.socket) -> Ended:
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.close(heard)
        parent.close()
        _live(task, request.arguments, Child(said))
    os.close(said)
    lines, hung = _hear(heard, time.monotonic() + request.patience)
    if hung:
        os.killpg(pid, signal.SIGKILL)
    os.close(heard)
    _, status = os.waitpid(pid, 0)
    end = next((line for line in lines if "ended" in line), {})
    return Ended(lines, os.WIFSIGNALED(status) and not hung, hung, end.get("error"), end.get("ended"))


def _inside(task: Callable[..., Any], request: _Request) -> Ended:
    try:
        return Ended([], False, False, None, task(None, **request.arguments))
    except Exception:
        return Ended([], False, False, traceback.format_exc(), None)


def _live(task: Callable[..., Any], arguments: dict[str, Any], child: Child) -> None:
    """The whole life of a child; it ends here and never returns into the server's loop."""
    try:
        child.say(ended=task(child, **arguments))
    except BaseException:
        child.say(ended=None, error=traceback.format_exc())
    finally:
        os._exit(0)


def _hear(pipe: int, until: float) -> tuple[list[dict[str, Any]], bool]:
    """Everything that is said until the pipe is closed, which death does; or until patience is over."""
    heard = bytearray()
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            break
        if not (data := os.read(pipe, 1 << 16)):
            break
        heard += data
    whole = heard[: heard.rfind(b"\n") + 1].splitlines()
    return [msgspec.json.decode(line) for line in whole], not ready


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _serve(int(sys.argv[1]), sys.argv[2])
