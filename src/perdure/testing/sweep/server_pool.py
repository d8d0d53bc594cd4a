"""A pool of fork servers: several trials run at the same time, each with servers of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from queue import SimpleQueue
from types import ModuleType
from typing import Any, NamedTuple, Self, TypeVar

from perdure.testing.sweep.fork_process import FORKING, WARM
from perdure.testing.sweep.fork_server import REHEARSAL, ForkServer, Task, fork_servers

T = TypeVar("T")
HASH_SEED = "PYTHONHASHSEED"


class TrialServers(NamedTuple):
    """The servers of one trial: two whose processes may be killed or stopped, and a warm one for what is not killed."""

    forking: ForkServer
    second: ForkServer
    warm: ForkServer


class ServerPool:
    """Fork servers that have imported the app, for `count` trials at a time. Several sweeps may share a pool.

    With `apart`, the second server of each trial comes from a process of its own with another hash seed, so that what
    depends on the order of a set differs between a process and the one that continues its work.
    """

    def __init__(
        self, *apps: str | ModuleType, count: int = 0, rehearsal: str = REHEARSAL, apart: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.count = count or min(os.cpu_count() or 1, 4)
        self._apps = [_importable(app) for app in apps]
        self._rehearsal = rehearsal
        self._apart = apart
        self._environment = dict(environment or {})
        self._stack = ExitStack()
        self._free: SimpleQueue[TrialServers] = SimpleQueue()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            start = partial(fork_servers, apps=self._apps, rehearsal=self._rehearsal)
            if self._apart:
                own = self._environment
                firsts = stack.enter_context(start(*(FORKING, WARM) * self.count, environment=own | {HASH_SEED: "1"}))
                seconds = stack.enter_context(start(*(FORKING,) * self.count, environment=own | {HASH_SEED: "2"}))
                trials = zip(firsts[::2], seconds, firsts[1::2], strict=True)
            else:
                kinds = (FORKING, FORKING, WARM) * self.count
                servers = stack.enter_context(start(*kinds, environment=self._environment))
                trials = zip(servers[::3], servers[1::3], servers[2::3], strict=True)
            for one in trials:
                self._free.put(TrialServers(*one))
            self._stack = stack.pop_all()
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
