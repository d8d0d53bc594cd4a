"""A pool of fork servers: several trials run at the same time, each with servers of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from types import ModuleType
from typing import Any, NamedTuple, Self, TypeVar

from perdure.testing.sweep.fork_process import FORKING, WARM
from perdure.testing.sweep.fork_server import REHEARSAL, ForkServer, Task, fork_servers

T = TypeVar("T")


class TrialServers(NamedTuple):
    """The servers of one trial: two whose processes may be killed or stopped, and a warm one for what is not killed."""

    forking: ForkServer
    second: ForkServer
    warm: ForkServer


class ServerPool:
    """Fork servers that have imported the app, for `count` trials at a time. Several sweeps may share a pool."""

    def __init__(self, *apps: str | ModuleType, count: int = 0, rehearsal: str = REHEARSAL) -> None:
        self.count = count or min(os.cpu_count() or 1, 4)
        self._apps = [_importable(app) for app in apps]
        self._rehearsal = rehearsal
        self._stack = ExitStack()
        self._free: SimpleQueue[TrialServers] = SimpleQueue()

    def __enter__(self) -> Self:
        kinds = (FORKING, FORKING, WARM) * self.count
        servers = self._stack.enter_context(fork_servers(*kinds, apps=self._apps, rehearsal=self._rehearsal))
        for one in zip(servers[::3], servers[1::3], servers[2::3], strict=True):
            self._free.put(TrialServers(*one))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def each(self, trials: Iterable[Callable[[TrialServers], T]]) -> list[T]:
        """Run every trial as soon as servers are free; results in the order of the trials."""

        def one(trial: Callable[[TrialServers], T]) -> T:
            servers = self._free.get()
            try:
                return trial(servers)
            finally:
                self._free.put(servers)

        with ThreadPoolExecutor(self.count) as threads:
            return list(threads.map(one, trials))

    def call(self, task: Task, /, **arguments: Any) -> Any:
        """Run one task in a process of its own: its result, or its error raised here."""
        return self.each([lambda servers: servers.forking.call(task, **arguments)])[0]


def _importable(app: str | ModuleType) -> str:
    if isinstance(app, str):
        return app
    if app.__name__ == "__main__" or app.__spec__ is None:
        return str(app.__file__)
    return app.__name__
