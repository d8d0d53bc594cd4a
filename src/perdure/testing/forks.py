"""Lives: processes that are born by forking a warm server, may be killed or stopped, and tell what they did until then.

The server imports the code under test once, opens no store and starts no thread, so what a life inherits is code and
nothing else. A life runs one function, `task(voice, **arguments)`, and speaks through a pipe, unbuffered: what was said
before it died is what its parent hears. Arguments and words are JSON.

One server has one life at a time; who needs two at once starts two servers. Where nothing is to be killed, a server
that does not fork runs the task in itself (`forking=False`): what is warm is twice as quick.
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
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from perdure.errors import ConfigError
from perdure.testing.proxy import wait_until

PRELOADED = ("perdure.testing.trial", "perdure.runtime.runtime", "perdure.store.databases.sqlite", "asyncio")


class Voice:
    """A life's way to be heard."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def say(self, **words: Any) -> None:
        """Say something now. A line torn by death was not said."""
        line = memoryview(msgspec.json.encode(words) + b"\n")
        while line:
            line = line[os.write(self._pipe, line) :]


class Ended(msgspec.Struct, frozen=True):
    """How a life ended: its result, the error that it ended with, or the death it died."""

    said: list[dict[str, Any]]
    result: Any = None
    error: str | None = None
    killed: bool = False
    hung: bool = False

    def told(self, word: str) -> Any:
        """What was last said under this word."""
        return next((line[word] for line in reversed(self.said) if word in line), None)


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
        last = self.said[-1] if self.said and "ended" in self.said[-1] else {}
        self.ended = Ended(self.said, last.get("ended"), last.get("error"), line["over"], line["hung"])

    def wait_stopped(self) -> None:
        """Wait until the kernel has stopped it."""
        wait_until(lambda: _state(self.pid) in "TtZX", "the life has stopped")

    def go_on(self) -> None:
        """Let a stopped life go on."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)


class ForkServer:
    """Runs inside `with`. `apps` are modules, by name or path, that every life finds imported."""

    def __init__(self, apps: Sequence[str] = (), *, forking: bool = True) -> None:
        self._apps = apps
        self._how = "fork" if forking else "stay"

    def __enter__(self) -> Self:
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "perdure.testing.forks", str(theirs.fileno()), self._how, *self._apps]
            paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], process_group=0, env=os.environ | {"PYTHONPATH": paths}
            )
        self._lines = self._socket.makefile("rb")
        ready = self._lines.readline()
        if ready != b"ready\n":
            self.__exit__()
            raise ConfigError(f"The app cannot be imported: {msgspec.json.decode(ready) if ready else 'it exited'}")
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._socket.close()
        self._process.wait()

    def begin(self, task: str, /, *, patience: float = 60.0, **arguments: Any) -> Life:
        """Begin a life that runs `module:function`; with patience over, it is killed and counts as hung."""
        if self._process.poll() is not None:  # a task that hung in a server which does not fork took it along
            self.__exit__()
            self.__enter__()
        request = {"task": task, "arguments": arguments, "patience": patience}
        self._socket.sendall(msgspec.json.encode(request) + b"\n")
        return Life(self)

    def run(self, task: str, /, *, patience: float = 60.0, **arguments: Any) -> Ended:
        """A whole life."""
        return self.begin(task, patience=patience, **arguments).end()

    def hear(self) -> dict[str, Any]:
        if not (line := self._lines.readline()):
            raise RuntimeError("the fork server is gone")
        heard: dict[str, Any] = msgspec.json.decode(line)
        return heard


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return "X"


class _Request(msgspec.Struct):
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


def _serve(descriptor: int, how: str, apps: Sequence[str]) -> None:
    with socket.socket(fileno=descriptor) as parent:
        try:
            for name in PRELOADED:
                importlib.import_module(name)
            find_task("perdure.testing.trial:rehearse")()
            for name in apps:
                import_app(name)
        except BaseException:
            parent.sendall(msgspec.json.encode(traceback.format_exc()) + b"\n")
            return
        gc.collect()
        gc.freeze()  # what is shared with the lives stays shared
        parent.sendall(b"ready\n")
        with parent.makefile("rb") as requests:
            for line in requests:
                request = msgspec.json.decode(line, type=_Request)
                if how == "fork":
                    _begin(request, parent)
                else:
                    _stay(request, parent)


def _begin(request: _Request, parent: socket.socket) -> None:
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


def _stay(request: _Request, parent: socket.socket) -> None:
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


def _live(request: _Request, voice: Voice) -> None:
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
    _serve(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
