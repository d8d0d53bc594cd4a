"""The process of an MCP server, and the messages to and from it over its standard input and output.

The package `mcp` has such a transport. This one bounds a message, starts the process in the sandbox of commands, and
has the kernel kill the process if this one dies.

    start    in a session of its own, with the harmless part of the environment
    end      its input is closed; then SIGTERM, and SIGKILL, to its process group
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from copy import copy
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import anyio
from mcp import types
from mcp.shared.message import SessionMessage

from perdure.agent.commands.sandbox import Level, command_line, environment, level_for
from perdure.agent.files.workspace import Workspace
from perdure.agent.tools.result import short
from perdure.errors import NotDone

LARGEST = 8 << 20  # bytes of one message
ERRORS = 4096  # bytes of standard error that are read
PATIENCE = 1.0  # seconds for each step of ending a process
_DIE_WITH_PARENT = "import ctypes,os,sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"


class ServerCommand:
    """How the process of a server is started."""

    def __init__(self, command: Sequence[str], env: dict[str, str], *, sandbox: bool, network: bool) -> None:
        self.command = command
        self.env = env
        self.sandbox = sandbox
        self.network = network

    @asynccontextmanager
    async def start(self, workspace: Callable[[Path], Workspace]) -> AsyncIterator[Process]:
        """The running process; it has ended when this is left."""
        program = shutil.which(self.command[0], path=os.environ.get("PATH"))
        if program is None:
            raise NotDone(f"There is no program {self.command[0]}.")
        temporary = Path(mkdtemp(prefix="perdure-mcp-"))
        try:
            place = copy(workspace(temporary))
            place.network = self.network
            level = level_for(place) if self.sandbox else Level.NONE
            line = command_line(place, [program, *self.command[1:]], level=level, temporary=temporary)
            errors = temporary / "errors"
            with errors.open("wb") as written:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, shutil.which(line[0]) or line[0], *line[1:],
                    stdin=PIPE, stdout=PIPE, stderr=written, cwd=place.root, limit=LARGEST,
                    env=environment(place, level, temporary) | self.env, start_new_session=True,
                )  # fmt: skip
            try:
                yield process
            except Exception as error:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE):
                        await process.wait()
                if process.returncode is not None and (said := _last_line(errors)):
                    raise NotDone(f"its process ended with {process.returncode}: {said}") from error
                raise
            finally:
                await asyncio.shield(asyncio.ensure_future(_end(process)))
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _last_line(path: Path) -> str:
    """The last line that a process wrote to its standard error."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - ERRORS))
        lines = file.read().decode(errors="replace").split("\n")
    return short(next((line for line in reversed(lines) if line.strip()), ""), 300)


async def _end(process: Process) -> None:
    """End a process and its group."""
    if process.stdin is not None:
        process.stdin.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await process.wait()
                break
    with suppress(ProcessLookupError):  # what it left in its group
        os.killpg(process.pid, signal.SIGKILL)
    process._transport.close()  # type: ignore[attr-defined]  # a process of another group may keep the pipe open


@asynccontextmanager
async def messages(process: Process) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of messages that a session of the package uses."""
    incoming, read = anyio.create_memory_object_stream[Any](0)
    write, outgoing = anyio.create_memory_object_stream[Any](0)
    async with incoming, read, write, outgoing, anyio.create_task_group() as tasks:
        tasks.start_soon(_read, process, incoming)
        tasks.start_soon(_write, process, outgoing)
        try:
            yield read, write
        finally:
            tasks.cancel_scope.cancel()


async def _read(process: Process, incoming: Any) -> None:
    """Pass each line on. The stream ends when the process does, and at a message that is too long."""
    assert process.stdout is not None
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async with incoming:
            while True:
                try:
                    line = await process.stdout.readuntil(b"\n")
                except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
                    return
                try:
                    parsed = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError as error:
                    await incoming.send(error)
                else:
                    await incoming.send(SessionMessage(parsed))


async def _write(process: Process, outgoing: Any) -> None:
    assert process.stdin is not None
    with suppress(OSError):
        async for one in outgoing:
            process.stdin.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await process.stdin.drain()
