"""The process of an isolated tool: import the tool's module, call the function once, report the outcome, exit.

It has no store and writes nothing but its messages. It dies with the worker that started it.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import os
import signal
import socket
import sys
from typing import Any, NoReturn

import msgspec

from perdure.errors import ConfigError, LeaseLost
from perdure.ids import storable
from perdure.runtime.definitions.tool import PROGRESS_LIMIT, TOOLS, Call, Tool
from perdure.runtime.description import short_text, summary
from perdure.runtime.function_call import await_to_end, call_to_end
from perdure.runtime.ledger.execution import outcome
from perdure.runtime.ledger.isolation import IsolatedMessage, IsolatedRequest

PR_SET_PDEATHSIG = 1


class WorkerSocket:
    """The connection to the worker."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)
        self._file = self._socket.makefile("rb")

    def say(self, message: IsolatedMessage) -> None:
        self._socket.sendall(msgspec.json.encode(message) + b"\n")

    def hear(self) -> bytes:
        return self._file.readline()


class IsolatedCall(Call):
    """A call whose references and heartbeats go to the worker."""

    __slots__ = ("_line",)

    def __init__(self, line: WorkerSocket, asked: IsolatedRequest) -> None:
        super().__init__(asked.key, asked.attempt, asked.session_id, asked.effect_id)
        self._line = line

    def reference(self, reference: str | None) -> None:
        super().reference(reference)
        if self.given_reference is not None:
            self._line.say(IsolatedMessage(reference=self.given_reference))

    def heartbeat(self, progress: str | None = None) -> None:
        text = None if progress is None else short_text(progress, PROGRESS_LIMIT)
        self._line.say(IsolatedMessage(heartbeat=True, progress=text))
        lost = msgspec.json.decode(self._line.hear(), type=str | None)
        if lost is not None:
            raise LeaseLost(lost)


def main(descriptor: int, parent: int) -> NoReturn:
    """Called by the interpreter that `isolation` starts."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the worker died before the signal was set
        os._exit(1)
    line = WorkerSocket(descriptor)
    asked = msgspec.json.decode(line.hear(), type=IsolatedRequest)
    try:
        tool = _find(asked)
        arguments = tool.signature.unbind_for_act(asked.arguments)
    except BaseException as error:
        line.say(IsolatedMessage(refused=storable(summary(error))))
        os._exit(1)
    given = IsolatedCall(line, asked)
    args, named = tool.context.give(given, arguments)
    line.say(IsolatedMessage(begun=True))
    if tool.signature.is_async:
        ended = asyncio.run(await_to_end(tool.function, args, named))
    else:
        ended = call_to_end(tool.function, args, named)
    line.say(IsolatedMessage(outcome=outcome(tool, ended, given.given_reference)))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def _find(asked: IsolatedRequest) -> Tool[..., Any]:
    importlib.import_module(asked.module)
    tool = TOOLS.get(asked.tool)
    if tool is None or tool.function.__qualname__ != asked.qualname:
        raise ConfigError(f"Module {asked.module} does not define the tool {asked.tool} as {asked.qualname}.")
    return tool
