"""`@tool(isolate="process")`: the tool's function runs in a process of its own, and its `timeout` is a real stop.

    start     a fresh interpreter, never a fork; it imports the tool's module and finds the tool there
    begin     the process reports that it begins; until then it is certain that nothing was done
    act       references and heartbeats come over a socket
    end       the process reports the outcome; or it dies; or it is killed, with its process group, at the deadline
    reap      only now has the act ended

The process dies with the worker, and it inherits the worker's presence lock: while it lives, the worker counts as
alive. What the function starts in a session of its own (`setsid`) is neither killed nor seen.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import msgspec

from perdure.clock import SECOND
from perdure.domain.effect import AttemptOutcome
from perdure.errors import LeaseLost
from perdure.ids import encode
from perdure.runtime.definitions.tool import Call, Tool, importable
from perdure.store.moves.effect_input import AttemptResult

START_LIMIT = 60.0  # seconds until the function must have begun, beside its own time limit
CODE = (
    "import sys; sys.path[:] = {path!r}; "
    "from perdure.runtime.ledger.isolated_process import main; main({descriptor}, {parent})"
)


class IsolatedMessage(msgspec.Struct, omit_defaults=True):
    """One line from the process: one of these is set."""

    begun: bool = False
    heartbeat: bool = False
    progress: str | None = None  # with a heartbeat
    reference: str | None = None
    refused: str | None = None
    outcome: AttemptResult | None = None


class IsolatedRequest(msgspec.Struct):
    """What the process is given. The module is that of the loaded code, never one that a row names."""

    module: str
    qualname: str
    tool: str
    arguments: dict[str, Any]
    key: str
    attempt: int
    session_id: str
    effect_id: str


class IsolatedFunction:
    """A tool's function for one attempt, in a process of its own. Called in a thread; returns the outcome."""

    def __init__(self, tool: Tool[..., Any], given: Call, arguments: dict[str, Any], locks: tuple[int, ...]) -> None:
        self._tool = tool
        self._given = given
        self._locks = locks
        self._request = IsolatedRequest(
            importable(tool.function), tool.function.__qualname__, tool.name, arguments, given.key, given.attempt,
            given.session_id, given.effect_id,
        )  # fmt: skip
        self._timeout = None if tool.timeout is None else tool.timeout / SECOND
        self._began = False
        self._refused: str | None = None
        self._outcome: AttemptResult | None = None
        self._rest = b""
        self._process: subprocess.Popen[bytes] | None = None

    def stop(self, by: str) -> None:  # noqa: ARG002 - the outcome names who stopped it
        """Kill the process, with its process group. Without an answer from it, the outcome is unknown."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def __call__(self, *_: Any, **__: Any) -> AttemptResult:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                descriptor = theirs.fileno()
                code = CODE.format(path=sys.path, descriptor=descriptor, parent=os.getpid())
                try:
                    process = subprocess.Popen(
                        [sys.executable, "-c", code],
                        pass_fds=(descriptor, *self._locks), start_new_session=True, stdin=subprocess.DEVNULL,
                    )  # fmt: skip
                except OSError as error:
                    return _not_started(f"Its process could not be started: {error}.")
            self._process = process
            if self._given.stopped_by is not None:  # before there was a process to kill
                self.stop(self._given.stopped_by)
            try:
                stopped = not self._follow(ours, process)
            finally:
                if process.poll() is None or self._outcome is None:  # processes that it started may still be acting
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self._drain(ours)
        return self._came(stopped, process.returncode)

    def _follow(self, ours: socket.socket, process: subprocess.Popen[bytes]) -> bool:
        """Exchange messages with the process until it has ended. False: its timeout is over."""
        deadline: float | None = time.monotonic() + START_LIMIT
        began = False
        try:
            with suppress(BrokenPipeError, ConnectionResetError):
                ours.sendall(msgspec.json.encode(self._request) + b"\n")
            while True:
                if self._began and not began:
                    began = True
                    deadline = None if self._timeout is None else time.monotonic() + self._timeout
                ours.settimeout(None if deadline is None else max(0.001, deadline - time.monotonic()))
                with suppress(ConnectionResetError):
                    if self._outcome is None and (content := ours.recv(65536)):
                        self._read(content, ours)
                        continue
                process.wait(None if deadline is None else max(0.001, deadline - time.monotonic()))
                return True
        except (TimeoutError, subprocess.TimeoutExpired):
            return False

    def _drain(self, ours: socket.socket) -> None:
        """Messages that it sent before it was killed count."""
        ours.settimeout(0)
        with suppress(OSError):
            while content := ours.recv(65536):
                self._read(content, None)

    def _read(self, content: bytes, answer: socket.socket | None) -> None:
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            message = msgspec.json.decode(line, type=IsolatedMessage)
            self._began = self._began or message.begun
            self._refused = message.refused or self._refused
            self._outcome = message.outcome or self._outcome
            if message.reference is not None:
                self._given.reference(message.reference)
            if message.heartbeat and answer is not None:
                with suppress(BrokenPipeError, ConnectionResetError):
                    answer.sendall(self._heartbeat(message.progress) + b"\n")

    def _heartbeat(self, progress: str | None) -> bytes:
        try:
            self._given.heartbeat(progress)
        except LeaseLost as error:
            return encode(error.message).encode()
        return b"null"

    def _came(self, stopped: bool, status: int) -> AttemptResult:
        reference = self._given.given_reference
        if self._outcome is not None:
            return msgspec.structs.replace(self._outcome, reference=self._outcome.reference or reference)
        if not self._began:
            why = self._refused or f"Its process ended with status {status} before it began."
            return _not_started(why)
        if stopped:
            error = _error("TimeoutError", f"no answer within {self._timeout:g} s; its process was killed")
        else:
            error = _error("ProcessEnded", f"its process ended with status {status} and gave no answer")
        return AttemptResult(outcome=AttemptOutcome.UNKNOWN, error=error, reference=reference)


def _not_started(why: str) -> AttemptResult:
    return AttemptResult(outcome=AttemptOutcome.FAILED, error=_error("ProcessNotStarted", why))


def _error(kind: str, message: str) -> str:
    return encode({"type": kind, "code": None, "message": message})
