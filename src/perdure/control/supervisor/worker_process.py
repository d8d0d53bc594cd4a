"""A worker as a process: signals, drain, recycling, and notifications to the process manager that started it.

    ready     after the worker has registered: the manager learns the name under which it holds leases, before it claims
    drain     on SIGTERM, and to recycle: it takes nothing new. Sessions finish or wait within the deadline; the others
              are given back, and other workers continue them
    again     a second SIGTERM gives back at once
    exit      0: every session finished or waits. 5: sessions were given back

An attempt that was dispatched is awaited in any case, because only this process will know its outcome.
"""

from __future__ import annotations

import asyncio
import os
import signal

import msgspec

from perdure.clock import SECOND
from perdure.control.supervisor.hang import HangWatch
from perdure.control.supervisor.notification import WORKER, ManagerNotifier
from perdure.control.supervisor.specification import GIVEN_BACK
from perdure.ids import random_fraction
from perdure.runtime.runtime import LAST_PATIENCE, Runtime
from perdure.runtime.workers.worker import Worker

CHECK = 1.0  # seconds between two looks at the memory of this process


class RecycleLimits(msgspec.Struct, frozen=True):
    """When a worker ends, so that a fresh process takes its place. Microseconds, sessions, bytes."""

    age: int | None = None
    sessions: int | None = None
    memory: int | None = None


class WorkerProcess:
    """Runs a worker until it is idle, is asked to stop, or reaches a limit; `run` returns the exit code."""

    def __init__(
        self, runtime: Runtime, notifier: ManagerNotifier, *, drain: float, hang: float, recycle: RecycleLimits
    ) -> None:
        self._runtime = runtime
        self._notifier = notifier
        self._drain = drain
        self._recycle = recycle
        self._hang = HangWatch(runtime, notifier, hang)
        self._served = 0
        self._draining = False
        self._worker: Worker | None = None
        self._task: asyncio.Task[None] | None = None

    def session_left(self) -> None:
        """A session has finished, waits, or could not be run here."""
        self._served += 1
        if self._recycle.sessions is not None and self._served >= self._recycle.sessions:
            self._begin_drain("it has served its number of sessions")

    async def run(self, worker: Worker, idle: float | None) -> int:
        loop = asyncio.get_running_loop()
        self._worker = worker
        loop.add_signal_handler(signal.SIGTERM, self.terminate)
        if self._runtime.worker_about.get("parent") is not None:  # its terminal is the supervisor's: a program sent it
            loop.add_signal_handler(signal.SIGINT, self.terminate)
        self._notifier.send(**{WORKER: self._runtime.worker.name}, READY=1)
        self._task = asyncio.ensure_future(worker.run(idle))
        limits = asyncio.ensure_future(self._watch_limits())
        try:
            with self._hang:
                await asyncio.wait([self._task])
        except asyncio.CancelledError:  # Ctrl-C
            self._task.cancel()
            await asyncio.wait([self._task])
            raise
        finally:
            limits.cancel()
            await asyncio.gather(limits, return_exceptions=True)
        if not self._task.cancelled():  # otherwise the sessions have been given back
            self._task.result()
        if self._draining:
            return GIVEN_BACK if worker.given_back else 0
        return 1 if worker.failed else 0

    def terminate(self) -> None:
        """SIGTERM: drain; the second time, give back at once."""
        if self._draining:
            self._give_back()
        else:
            self._begin_drain("it was asked to stop")

    def _begin_drain(self, why: str) -> None:
        if self._draining or self._worker is None:
            return
        self._draining = True
        if not self._worker.running:  # otherwise outcomes may have to wait for the store
            self._runtime.store.limit_patience(LAST_PATIENCE)
        self._worker.drain()
        self._notifier.send(STOPPING=1, STATUS=f"draining: {why}")
        self._runtime.worker.set_draining()
        asyncio.get_running_loop().call_later(self._drain, self._give_back)

    def _give_back(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _watch_limits(self) -> None:
        if self._recycle.age is not None:  # not all workers of a tree at the same moment
            age = self._recycle.age / SECOND * (0.9 + random_fraction() / 10)
            asyncio.get_running_loop().call_later(age, self._begin_drain, "it has reached its age")
        while self._recycle.memory is not None:
            if resident_memory() > self._recycle.memory:
                self._begin_drain("it has reached its limit of memory")
                return
            await asyncio.sleep(CHECK)


def resident_memory() -> int:
    """The bytes of memory that this process occupies."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
