"""A worker: claims sessions that are ready, runs several of them at a time, and runs the services of a store.

It holds nothing that matters: killed at any moment, it loses no work, because sessions are recovered from the store by
the next process that claims them.

Store outages. The worker stays while the store is unavailable, because only this process knows the outcomes of the
attempts that ended in the meantime.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from perdure.clock import SECOND
from perdure.domain.literals import PolicyAnswer
from perdure.errors import ConfigError, StoreError, StoreFull, StoreUnavailable
from perdure.ids import check_name
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.deploy.missing_code import MissingCode
from perdure.runtime.ledger.policy import Intent
from perdure.runtime.runtime import Runtime, open_for_worker
from perdure.runtime.services.leases import Leases
from perdure.runtime.services.notifications import NotificationSender
from perdure.runtime.services.registry import make_services
from perdure.runtime.services.service import ServiceGroup
from perdure.runtime.services.timers import Approvals, Timers
from perdure.runtime.workers.session_tasks import POLL, SessionTasks, WorkerNotice
from perdure.store.moves import wait
from perdure.store.store import SERVICE
from perdure.store.writer.wakeup import IDLE_POLL

logger = logging.getLogger(__name__)
SOON = 60.0  # seconds: a worker that could exit stays for a timer that is due by then
OUTAGE = 60.0  # seconds that a worker which could exit waits for an unavailable store
CONCURRENCY = 4  # sessions at a time


class Worker:
    """Claims and runs the sessions of a store: `async with perdure.Worker("work.db", concurrency=8) as worker:`.

    `store`, `policy`, `by` and `artifacts` are those of `perdure.open`; or `store` is an open `Runtime`. With `queues`,
    it takes sessions of these queues only. With `only`, the uid of one session, it runs that session and its
    descendants. Without `services`, other processes must run the services, such as timers. When the block is left,
    nothing more is claimed; what runs gets the time `drain` to finish or to wait, and is then given back for other
    workers. An attempt that was dispatched is always awaited.
    """

    __module__ = "perdure"

    def __init__(
        self,
        store: Runtime | str | Path | None = None,
        *,
        concurrency: int = CONCURRENCY,
        queues: Collection[str] | None = None,
        drain: str | float = "10s",
        policy: Callable[[Intent], PolicyAnswer] | None = None,
        by: str = "owner",
        artifacts: str | Path | None = None,
        only: str | None = None,
        services: bool = True,
        notify: Callable[[WorkerNotice], None] = lambda _: None,
    ) -> None:
        if type(concurrency) is not int or concurrency < 1:
            raise ConfigError(f"A worker cannot run {concurrency!r} sessions at a time.", hint="Give a number from 1.")
        if queues is not None and (isinstance(queues, str) or not queues):
            raise ConfigError(f"{queues!r} are not names of queues.", hint='Give several names: ["default", "night"].')
        names = None if queues is None else frozenset(check_name("The queue", one) for one in queues)
        self._drain = microseconds(drain) / SECOND
        self._owns_runtime = not isinstance(store, Runtime)
        self._runtime = _runtime_of(store, policy, by, artifacts, only)
        self._runtime.worker_about |= {"concurrency": concurrency, "queues": _announced(names, only)}
        self._only = only
        self._notify = notify
        self._sessions = SessionTasks(self._runtime, only, concurrency, notify, names)
        self._missing_code = MissingCode(self._runtime, names)
        self._services = self._make_services() if services else ServiceGroup([])
        self._fires_timers = services and not self._is_remote
        self._background: list[asyncio.Task[None]] = []  # heartbeats, and a look for sessions that wait for this worker
        self._queues = names
        self._draining = False
        self._outage_since: int | None = None
        self._task: asyncio.Task[None] | None = None  # it runs between `__aenter__` and `__aexit__`
        self._looks = 0  # how often it has looked for work
        self._idle: list[tuple[int, asyncio.Future[None]]] = []  # the look from which each caller of `idle` waits

    def _make_services(self) -> ServiceGroup:
        def report(session: str, error: Exception) -> None:
            self._notify(WorkerNotice("worker.failed", session=session, error=error))

        names: tuple[str, ...] | None = (
            None if self._only is None else (Timers.name, Approvals.name, NotificationSender.name)
        )
        if self._is_remote:  # the service has processes of its own for the others
            names = (Leases.name,)
        return make_services(self._runtime, names, report)

    @property
    def _is_remote(self) -> bool:
        return self._runtime.store.database.dialect == SERVICE

    @property
    def runtime(self) -> Runtime:
        """The runtime that it runs sessions with."""
        return self._runtime

    @property
    def failed(self) -> bool:
        """Whether a session could not be run here."""
        return self._sessions.failed

    @property
    def running(self) -> int:
        """How many sessions it runs now."""
        return sum(not task.done() for task in self._sessions.running.values())

    @property
    def given_back(self) -> int:
        """How many sessions it gave back because it had to stop."""
        return self._sessions.given_back

    def drain(self) -> None:
        """Take nothing new from now on; `run` returns when the sessions that run here have finished or wait."""
        self._draining = True
        self._runtime.store.wakeups.bump()

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise ConfigError("This worker runs already.", hint="Make another one.")
        self._task = asyncio.ensure_future(self.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        try:
            self._draining = True
            if kind is None and self._sessions.running:
                await asyncio.wait(self._sessions.running.values(), timeout=self._drain)
        finally:
            self._task.cancel()
            try:
                with suppress(asyncio.CancelledError):
                    await self._task
            finally:
                if self._owns_runtime:
                    await self._runtime.__aexit__(kind, error, trace)

    async def idle(self) -> None:
        """Return when every session that can be run here has finished or waits, and no timer is due."""
        if self._task is None or self._task.done():
            raise ConfigError("This worker does not run.", hint="Use `async with perdure.Worker(...) as worker`.")
        found: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append((self._looks + 1, found))
        self._runtime.store.wakeups.bump()
        await asyncio.wait([found, self._task], return_when=asyncio.FIRST_COMPLETED)
        if not found.done():
            await self._task  # it has ended: with an error, or because the worker was left

    async def run(self, idle: float | None = None) -> None:
        """Run sessions until cancelled; with `idle`, until there was nothing to do for so many seconds.

        With `only`, returns when that session has ended or cannot be run here. On cancellation, every session is given
        back; an attempt that was dispatched is awaited.
        """
        try:
            async with self._services:
                await self._run(idle)
        finally:
            await self._sessions.stop()
            for task in self._background:
                task.cancel()

    async def _run(self, idle: float | None) -> None:
        store = self._runtime.store
        quiet_since = store.clock.boot()
        while True:
            if self._draining and self._outage_since is not None and not self.running:
                return
            seen = store.wakeups.version
            self._looks += 1
            try:
                is_over, busy = await self._is_over(), await self._claim()
            except (StoreUnavailable, StoreFull) as error:
                self._await_store(error, idle)
                await self._wait(seen, POLL)
                continue
            if self._outage_since is not None:
                logger.info("The store is available again.")
                self._outage_since = None
            if not self._background:
                self._background.append(asyncio.ensure_future(self._runtime.worker.keep_seen()))
                if self._only is None:
                    self._background.append(asyncio.ensure_future(self._missing_code.watch()))
            running = self._sessions.running
            if not running and not self._sessions.is_recovering():
                self._report_idle()
            if busy or running or self._sessions.is_recovering():
                quiet_since = store.clock.boot()
            left = IDLE_POLL if idle is None else idle - (store.clock.boot() - quiet_since) / 1_000_000
            if not running and (left <= 0 or is_over or self._draining):
                await self._report_next_due()
                return
            if (wake_at := self._sessions.wake_at) is not None:
                left = min(left, (wake_at - store.clock.now()) / SECOND)
            await self._wait(seen, min(self._sessions.poll, max(0.0, left)))

    def _report_idle(self) -> None:
        """Wake the callers of `idle` that came before this look."""
        for first, found in self._idle:
            if first <= self._looks and not found.done():
                found.set_result(None)
        self._idle = [one for one in self._idle if not one[1].done()]

    def _await_store(self, error: StoreError, idle: float | None) -> None:
        if self._outage_since is None:
            self._outage_since = self._runtime.store.clock.boot()
            logger.info("The store is unavailable [%s]; the worker waits for it.", error.code)
            self._notify(WorkerNotice("worker.waiting", error=error))
        if idle is not None and self._sessions.is_past(self._outage_since, max(idle, OUTAGE)):
            raise error

    async def _report_next_due(self) -> None:
        """Report when the next timer is due, unless other processes fire timers."""
        if not self._fires_timers:
            return
        ignored = (StoreUnavailable,) if self._draining else ()
        with suppress(*ignored):
            due = await self._runtime.store.read(wait.next_due, self._runtime.store.clock.now())
            if self._only is None and due is not None:
                self._notify(WorkerNotice("worker.idle", next_due=due))

    async def _wait(self, seen: int, seconds: float) -> None:
        wakeups, suspect = self._runtime.store.wakeups, self._sessions.suspect
        if self._only is not None:
            changed = wakeups.wait(seen, None, seconds)
        elif suspect is not None:
            changed = wakeups.wait(seen, suspect, seconds)
        else:
            changed = wakeups.wait_queues(seen, self._queues, seconds)
        waiting = asyncio.ensure_future(changed)
        try:
            await asyncio.wait([waiting, *self._sessions.running.values()], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        self._sessions.forget_ended()

    async def _claim(self) -> bool:
        """Do what is due, and start ready sessions. Returns whether there is a reason not to exit."""
        if not self._draining:
            await self._services.look_if_due()
            if self._only is None:
                await self._missing_code.wake()
            await self._sessions.start()
        if self._only is None:
            soon = self._services.next_due(Timers.name, Approvals.name)
            if self._sessions.wake_at is not None:  # sessions are ready, and the limits of their queue hold them back
                return True
            return soon is not None and soon - self._runtime.store.clock.now() <= SOON * SECOND
        view = await self._runtime.get(self._only)
        timed = any(one.due_at is not None and one.kind in ("timer", "input") for one in view.waits)
        return timed or (view.status == "running" and view.uid not in self._sessions.failed_at_cursor)

    async def _is_over(self) -> bool:
        """Whether the one session that this worker is for has ended, or cannot be run here."""
        if self._only is None or self._sessions.running:
            return False
        view = await self._runtime.get(self._only)
        stuck = view.status == "ready" and self._sessions.failed_at_cursor.get(view.uid) == view.cursor
        return view.status in ("done", "failed", "cancelled") or stuck


def _runtime_of(
    store: Runtime | str | Path | None, policy: Callable[[Intent], PolicyAnswer] | None, by: str,
    artifacts: str | Path | None, only: str | None,
) -> Runtime:  # fmt: skip
    """The runtime that a worker is given, or one over the store or the service that it is given."""
    is_open = isinstance(store, Runtime)
    if is_open and (policy is not None or artifacts is not None):
        raise ConfigError("An open runtime has its policy and its folder for artifacts already.")
    made = store if isinstance(store, Runtime) else open_for_worker(store, policy=policy, by=by, artifacts=artifacts)
    if only is not None and made.store.database.dialect == SERVICE:
        raise ConfigError("A worker on a service is not for one session.", hint="Leave out the id.")
    return made


def _announced(queues: Collection[str] | None, only: str | None) -> list[str] | None:
    """The queues that a worker takes sessions of; None: all. A worker for one session takes none of any queue."""
    if only is not None:
        return []
    return None if queues is None else sorted(queues)
