"""Drivers: who runs a session that is watched at a terminal, this process or a worker in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from perdure.cli.background_worker import (
    BackgroundWorker,
    log_path,
    log_tail,
    start_worker,
    supports_background,
)  # fmt: skip
from perdure.cli.shell import Shell
from perdure.errors import ConfigError, PerdureError, SessionWaiting
from perdure.runtime.runtime import Runtime

STARTS = 3  # workers in a row that may be started without progress of the session
LEASE_EVENTS = frozenset({"lease.acquired", "lease.taken_over", "lease.expired", "session.released"})


class SessionDriver(Protocol):
    """`start` runs the session if no process does. `leave` ends the part of this process, and returns whether it ended.

    `saw` is given the kind of every event of the session. `check` returns why the session cannot be run.
    """

    is_here: bool

    @property
    def is_running(self) -> bool: ...
    def start(self) -> None: ...
    def saw(self, kind: str) -> None: ...
    def check(self) -> PerdureError | None: ...
    async def rest(self, seconds: float) -> None: ...
    async def leave(self, seconds: float) -> bool: ...


class LocalDriver:
    """Runs the session in this process. `report` is given None when the session rests, or why it cannot be run."""

    is_here = True

    def __init__(self, runtime: Runtime, uid: str, report: Callable[[PerdureError | None], None]) -> None:
        self._runtime = runtime
        self._uid = uid
        self._report = report
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        if not self.is_running:
            self._task = asyncio.ensure_future(self._run())

    def saw(self, kind: str) -> None:
        """Events are not needed here: the run itself reports how it ends."""

    async def _run(self) -> None:
        try:
            await self._runtime.complete(self._uid)
        except SessionWaiting:
            self._report(None)
        except PerdureError as error:
            self._report(error)
        else:
            self._report(None)

    def check(self) -> PerdureError | None:
        return None

    async def rest(self, seconds: float) -> None:
        """Let the session come to rest by itself, if that is soon."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)

    async def leave(self, seconds: float) -> bool:
        """Give the session back. An attempt that was dispatched is awaited for so many seconds."""
        if self._task is None:
            return True
        self._task.cancel()
        done, _ = await asyncio.wait([self._task], timeout=seconds)
        return bool(done)


class BackgroundDriver:
    """Runs the session in a worker that outlives this terminal. `notify` is given each worker that is started."""

    is_here = False

    def __init__(self, shell: Shell, uid: str, notify: Callable[[BackgroundWorker], None]) -> None:
        self._shell = shell
        self._uid = uid
        self._notify = notify
        self._worker: BackgroundWorker | None = None
        self._starts = 0

    @property
    def is_running(self) -> bool:
        return self._worker is not None and self._worker.process.poll() is None

    def start(self) -> None:
        if not self.is_running and supports_background(self._shell):
            self._starts += 1
            if self._starts > STARTS:
                return
            self._worker = start_worker(self._shell, self._uid)
            self._notify(self._worker)

    def saw(self, kind: str) -> None:
        """Acquiring and releasing the lease is no progress."""
        if kind not in LEASE_EVENTS:
            self._starts = 0

    def check(self) -> PerdureError | None:
        """Why the worker exited, if it failed, or why no other worker is started."""
        if self._starts > STARTS:
            message = f"{STARTS} workers in a row were started, and the session made no progress."
            return ConfigError(message, hint=f"The log of the workers is {log_path(self._shell, self._uid)}.")
        if self._worker is None or self._worker.process.poll() in (None, 0):
            return None
        output, log = log_tail(self._worker.log), self._worker.log
        self._worker = None
        return ConfigError(f"The worker failed. Its output: {output or 'none'}", hint=f"Its log is {log}.")

    async def rest(self, seconds: float) -> None:
        """The worker continues by itself."""

    async def leave(self, seconds: float) -> bool:  # noqa: ARG002 - the worker continues by itself
        return True
