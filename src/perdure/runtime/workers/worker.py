"""A worker: claims sessions that are ready, runs several of them at a time, and fires timers that are due.

It holds nothing that matters: killed at any moment, it loses no work, because sessions are recovered from the store by
the next process that claims them.

Crash containment. A session whose last worker crashed may crash this one too. It runs alone until it has made progress,
or for `ALONE` seconds, so that it cannot take other sessions down with it.

Store outages. The worker stays while the store is unavailable, because only this process knows the outcomes of the
attempts that ended in the meantime.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Literal

import msgspec

from perdure.domain.worker import Liveness
from perdure.errors import LeaseHeld, LeaseLost, StoreError, StoreFull, StoreUnavailable
from perdure.runtime.run.lineage import wake_stale_branches
from perdure.runtime.runtime import Runtime
from perdure.runtime.workers.queue import Entry, entry, next_in_line
from perdure.store.moves import wait
from perdure.store.moves import worker as worker_rows

logger = logging.getLogger(__name__)
POLL = 1.0  # seconds between two claims when no write wakes the worker
SOON = 60.0  # seconds: a worker that could exit stays for a timer that is due by then
OUTAGE = 60.0  # seconds that a worker which could exit waits for an unavailable store
ALONE = 60.0  # seconds that a session whose worker crashed runs alone, unless it makes progress earlier


class WorkerNotice(msgspec.Struct, frozen=True):
    """What a worker reports while it runs. Fields that do not belong to its type are None."""

    type: Literal["worker.waiting", "worker.idle", "worker.left", "worker.failed"]
    session: str | None = None
    status: str | None = None
    error: Exception | None = None
    next_due: int | None = None  # when the next timer is due, in microseconds


class Worker:
    """Claims and runs sessions. With `only`, the uid of one session: that session and its descendants.

    `failed` is true after a session could not be run here.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        only: str | None = None,
        concurrency: int = 4,
        notify: Callable[[WorkerNotice], None] = lambda _: None,
    ) -> None:
        self.runtime = runtime
        self.only = only
        self.failed = False
        self._concurrency = concurrency
        self._notify = notify
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failed_at_cursor: dict[str, int] = {}  # where a session stood when it could not be run here
        self._held_since: dict[str, int] = {}  # when another process was found to hold a session
        self._suspect: Entry | None = None  # the session that runs alone, because its last worker crashed
        self._suspect_since: dict[str, int] = {}  # when such a session was first passed over, or started
        self._outage_since: int | None = None
        self._store_failed_at: int | None = None  # when the store last failed a session that ran here
        self._unfired: dict[tuple[str, str], int] = {}  # when a wait that is due could not be resolved

    async def run(self, idle: float | None = None) -> None:
        """Run sessions until cancelled; with `idle`, until there was nothing to do for so many seconds.

        With `only`, returns when that session has ended or cannot be run here. On cancellation, every session is given
        back; an attempt that was dispatched is awaited.
        """
        try:
            await self._run(idle)
        finally:
            await self._stop()

    async def _run(self, idle: float | None) -> None:
        store = self.runtime.store
        quiet_since = store.clock.boot()
        while True:
            seen = store.wakeups.version
            try:
                is_over, busy = await self._is_over(), await self._claim()
            except (StoreUnavailable, StoreFull) as error:
                self._await_store(error, idle)
                await self._wait(seen, POLL)
                continue
            if self._outage_since is not None:
                logger.info("The store is available again.")
                self._outage_since = None
            if busy or self._tasks or self._is_recovering():
                quiet_since = store.clock.boot()
            left = POLL if idle is None else idle - (store.clock.boot() - quiet_since) / 1_000_000
            if (left <= 0 and not self._tasks) or (is_over and not self._tasks):
                await self._report_next_due()
                return
            await self._wait(seen, min(POLL, max(0.0, left)))

    async def _stop(self) -> None:
        """Give the sessions back; an attempt that was dispatched is awaited."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _await_store(self, error: StoreError, idle: float | None) -> None:
        if self._outage_since is None:
            self._outage_since = self.runtime.store.clock.boot()
            logger.info("The store is unavailable [%s]; the worker waits for it.", error.code)
            self._notify(WorkerNotice("worker.waiting", error=error))
        if idle is not None and self._is_past(self._outage_since, max(idle, OUTAGE)):
            raise error

    def _is_recovering(self) -> bool:
        """Whether a session that the store failed may still be leased to this process."""
        longest = max(self.runtime.heartbeat.ttl / 1_000_000, 2 * POLL)
        return self._store_failed_at is not None and not self._is_past(self._store_failed_at, longest)

    async def _report_next_due(self) -> None:
        """Report when the next timer is due: no process fires it after this worker has exited."""
        due = await self.runtime.store.read(wait.next_due, self.runtime.store.clock.now())
        if self.only is None and due is not None:
            self._notify(WorkerNotice("worker.idle", next_due=due))

    async def _wait(self, seen: int, seconds: float) -> None:
        waiting = asyncio.ensure_future(self.runtime.store.wakeups.wait(seen, None, seconds))
        await asyncio.wait([waiting, *self._tasks.values()], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        self._tasks = {uid: task for uid, task in self._tasks.items() if not task.done()}

    async def _claim(self) -> bool:
        """Fire due timers and start ready sessions. Returns whether there is a reason not to exit."""
        now = self.runtime.store.clock.now()
        await self._fire()
        await self._start()
        if self.only is None:
            soon: int | None = await self.runtime.store.read(wait.next_due, now)
            return soon is not None and (soon - now) / 1_000_000 <= SOON
        view = await self.runtime.get(self.only)
        timed = any(one.due_at is not None and one.kind in ("timer", "input") for one in view.waits)
        return timed or (view.status == "running" and view.uid not in self._failed_at_cursor)

    async def _fire(self) -> None:
        """Resolve waits that are due. One that cannot be resolved is reported once and does not block the others."""
        await wake_stale_branches(self.runtime.store, self.runtime.worker.name)
        for due in await self.runtime.store.read(wait.due, limit=100 + len(self._unfired)):
            known = self._unfired.get((due.session_uid, due.id))
            if known is not None and not self._is_past(known, SOON):
                continue
            try:
                await self.runtime.driver.fire(due)
            except (StoreUnavailable, StoreFull):
                raise
            except Exception as error:
                self._unfired[due.session_uid, due.id] = self.runtime.store.clock.boot()
                if known is None:
                    self._notify(WorkerNotice("worker.failed", session=due.session_uid, error=error))

    async def _start(self) -> None:
        """Start the next sessions, up to the concurrency limit; one whose last worker crashed runs alone."""
        store = self.runtime.store
        rows = await store.read(worker_rows.listing)
        dead = {one.id for one in rows if self.runtime.worker.life(one) is Liveness.DEAD}
        passed = len(self._tasks) + len(self._failed_at_cursor) + len(self._held_since)
        found = await store.read(
            next_in_line, dead,
            limit=self._concurrency + passed, has_policy=self.runtime.policy.is_given, only=self.only,
        )  # fmt: skip
        free = [one for one in found if one.uid not in self._tasks and self._may_try(one)]
        for one in free if self._tasks else sorted(free, key=lambda one: not one.has_crashed):
            if len(self._tasks) >= self._concurrency or await self._runs_alone():
                return
            if one.has_crashed:
                since = self._suspect_since.setdefault(one.uid, store.clock.boot())
                if self._tasks and not self._is_past(since, ALONE):
                    continue
                logger.info("Session %s: its last worker crashed, so it runs alone at first.", one.uid)
                self._suspect, self._suspect_since[one.uid] = one, store.clock.boot()
            self._tasks[one.uid] = asyncio.ensure_future(self._run_session(one))

    async def _runs_alone(self) -> bool:
        """Whether a session that may crash this worker was started and has made no progress yet."""
        one = self._suspect
        if one is None or one.uid not in self._tasks or self._is_past(self._suspect_since[one.uid], ALONE):
            return False
        now = await self.runtime.store.read(entry, one.uid)
        return now is not None and now.cursor <= one.cursor + 1  # only its lease was acquired

    def _is_past(self, since: int, seconds: float) -> bool:
        return self.runtime.store.clock.boot() - since >= seconds * 1_000_000

    def _may_try(self, one: Entry) -> bool:
        held = self._held_since.get(one.uid)
        return self._failed_at_cursor.get(one.uid) != one.cursor and (held is None or self._is_past(held, POLL))

    async def _is_over(self) -> bool:
        """Whether the one session that this worker is for has ended, or cannot be run here."""
        if self.only is None or self._tasks:
            return False
        view = await self.runtime.get(self.only)
        stuck = view.status == "ready" and self._failed_at_cursor.get(view.uid) == view.cursor
        return view.status in ("done", "failed", "cancelled") or stuck

    async def _run_session(self, one: Entry) -> None:
        try:
            view = await self.runtime.run(one.uid)
        except (LeaseHeld, LeaseLost) as error:
            logger.info("Session %s: it is not run here [%s].", one.uid, error.code)
            self._held_since[one.uid] = self.runtime.store.clock.boot()
            return
        except (StoreUnavailable, StoreFull):  # late outcomes are written when the store is back; then it is run again
            self._held_since[one.uid] = self._store_failed_at = self.runtime.store.clock.boot()
            return
        except Exception as error:  # a session that cannot be run must not block the others
            now = await self.runtime.store.read(entry, one.uid)
            self._failed_at_cursor[one.uid] = one.cursor if now is None else now.cursor
            self.failed = True
            logger.info("Session %s: it cannot be run here (%s).", one.uid, type(error).__name__)
            self._notify(WorkerNotice("worker.failed", session=one.id, error=error))
            return
        self._notify(WorkerNotice("worker.left", session=view.id, status=view.status))
