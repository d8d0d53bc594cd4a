"""A group of processes that run tasks. They are started once, because a start costs more than most tasks.

Stores are opened in the child and never carried into one. A task is a function at the top of a module; its first
argument is `ready`: it is called when everything is prepared, and returns when all others have called it too.
"""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

T = TypeVar("T")
Ready = Callable[[], None]
PATIENCE = 180.0


class ProcessGroup:
    """Up to `size` processes that work at the same time."""

    def __init__(self, size: int) -> None:
        self._spawn = multiprocessing.get_context("spawn")
        self._size = size
        self._members: list[tuple[SpawnProcess, Connection]] = []

    def run(self, work: Callable[..., T], each: Iterable[tuple[Any, ...]]) -> list[T]:
        """Run a task in each process with its own arguments, all starting together; return the results."""
        pieces = list(each)
        assert len(pieces) <= self._size
        while len(self._members) < len(pieces):
            self._members.append(self._start())
        lines = [line for _, line in self._members[: len(pieces)]]
        try:
            for line, arguments in zip(lines, pieces, strict=True):
                line.send((work, arguments))
            _receive(lines, "ready")
            for line in lines:
                line.send("go")
            return _receive(lines, "done")
        except BaseException:
            self.close()
            raise

    def _start(self) -> tuple[SpawnProcess, Connection]:
        ours, theirs = self._spawn.Pipe()
        process = self._spawn.Process(target=_member, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return process, ours

    def close(self) -> None:
        for process, line in self._members:
            line.close()
            process.kill()
            process.join()
            process.close()
        self._members = []


def _receive(lines: list[Connection], wanted: str) -> list[Any]:
    """The next message of each process. A failure of one fails the run."""
    said: dict[Connection, Any] = {}
    deadline = time.monotonic() + PATIENCE
    while len(said) < len(lines):
        available = wait([line for line in lines if line not in said], deadline - time.monotonic())
        if not available:
            raise TimeoutError(f"the group was not {wanted} within {PATIENCE:g} s")
        for line in available:
            assert isinstance(line, Connection)
            word, said[line] = line.recv()
            assert word == wanted, said[line]
    return [said[line] for line in lines]


def _member(line: Connection) -> None:
    def ready() -> None:
        line.send(("ready", None))
        assert line.recv() == "go"

    while True:
        try:
            work, arguments = line.recv()
        except EOFError:
            return
        try:
            line.send(("done", work(ready, *arguments)))
        except BaseException:
            line.send(("failed", traceback.format_exc()))
