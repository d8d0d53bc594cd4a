"""Lanes: trials side by side, each with a server of its own for whoever is killed and one for whoever looks on."""

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


class Lane(NamedTuple):
    """A server that forks a life to be killed, and a warm one for a life that nobody disturbs."""

    forking: ForkServer
    warm: ForkServer


class Lanes:
    """Lanes that have imported the app, each busy with one trial at a time. Many sweeps may share them."""

    def __init__(self, *apps: str | ModuleType, count: int = 0, rehearsal: str = REHEARSAL) -> None:
        self.count = count or min(os.cpu_count() or 1, 4)
        self._apps = [_importable(app) for app in apps]
        self._rehearsal = rehearsal
        self._stack = ExitStack()
        self._free: SimpleQueue[Lane] = SimpleQueue()

    def __enter__(self) -> Self:
        kinds = (FORKING, WARM) * self.count
        servers = self._stack.enter_context(fork_servers(*kinds, apps=self._apps, rehearsal=self._rehearsal))
        for forking, warm in zip(servers[::2], servers[1::2], strict=True):
            self._free.put(Lane(forking, warm))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def each(self, trials: Iterable[Callable[[Lane], T]]) -> list[T]:
        """Run every trial on whichever lane is free; results in the order of the trials."""

        def one(trial: Callable[[Lane], T]) -> T:
            lane = self._free.get()
            try:
                return trial(lane)
            finally:
                self._free.put(lane)

        with ThreadPoolExecutor(self.count) as pool:
            return list(pool.map(one, trials))

    def call(self, task: Task, /, **arguments: Any) -> Any:
        """One task, in a life of its own: its result, or its error raised here."""
        return self.each([lambda lane: lane.forking.call(task, **arguments)])[0]


def _importable(app: str | ModuleType) -> str:
    if isinstance(app, str):
        return app
    if app.__name__ == "__main__" or app.__spec__ is None:
        return str(app.__file__)
    return app.__name__
