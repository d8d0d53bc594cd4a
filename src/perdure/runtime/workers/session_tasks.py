"""The sessions that a worker runs at a time: one task each.

Crash containment. A session whose last worker crashed may crash this one too. It runs alone until it has made progress,
or for `ALONE` seconds, so that it cannot take other sessions down with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Literal

import msgspec

from perdure.domain.worker import Liveness
from perdure.errors import LeaseHeld, LeaseLost, StoreFull, StoreUnavailable
from perdure.runtime.runtime import Runtime
from perdure.runtime.workers.queue import Entry, entry, next_in_line
from perdure.store.moves import worker as worker_rows

logger = logging.getLogger(__name__)
POLL = 1.0  # seconds between two claims when no write wakes the worker
ALONE = 60.0  # seconds that a session whose worker crashed runs alone, unless it makes progress earlier


class WorkerNotice(msgspec.Struct, frozen=True):
    """What a worker reports while it runs. Fields that do not belong to its type are None."""

    type: Literal["worker.waiting", "worker.idle", "worker.left", "worker.failed"]
    session: str | None = None
    status: str | None = None
    error: Exception | None = None
    next_due: int | None = None  # when the next timer is due, in microseconds


class SessionTasks:
    """Starts sessions up to a limit. `only` is the uid of the one session that it is for, with its descendants."""

    def __init__(
        self, runtime: Runtime, only: str | None, concurrency: int, notify: Callable[[WorkerNotice], None]
    ) -> None:
        self.failed = False  # whether a session could not be run here
        self.running: dict[str, asyncio.Task[None]] = {}
        self.failed_at_cursor: dict[str, int] = {}  # where a session stood when it could not be run here
        self._runtime = runtime
        self._only = only
        self._concurrency = concurrency
        self._notify = notify
        self._held_since: dict[str, int] = {}  # when another process was found to hold a session
        self._suspect: Entry | None = None  # the session that runs alone, because its last worker crashed
        self._suspect_since: dict[str, int] = {}  # when such a session was first passed over, or started
        self._store_failed_at: int | None = None  # when the store last failed a session that ran here

    def is_recovering(self) -> bool:
        """Whether a session that the store failed may still be leased to this process."""
        longest = max(self._runtime.heartbeat.ttl / 1_000_000, 2 * POLL)
        return self._store_failed_at is not None and not self.is_past(self._store_failed_at, longest)

    def is_past(self, since: int, seconds: float) -> bool:
        """Whether so many seconds have passed since a time of the boot clock."""
        return self._runtime.store.clock.boot() - since >= seconds * 1_000_000

    def forget_ended(self) -> None:
        self.running = {uid: task for uid, task in self.running.items() if not task.done()}

    async def stop(self) -> None:
        """Give the sessions back; an attempt that was dispatched is awaited."""
        for task in self.running.values():
            task.cancel()
        await asyncio.gather(*self.running.values(), return_exceptions=True)

    async def start(self) -> None:
        """Start the next sessions, up to the concurrency limit; one whose last worker crashed runs alone."""
        store = self._runtime.store
        rows = await store.read(worker_rows.listing)
        dead = {one.id for one in rows if self._runtime.worker.life(one) is Liveness.DEAD}
        passed = len(self.running) + len(self.failed_at_cursor) + len(self._held_since)
        found = await store.read(
            next_in_line, dead,
            limit=self._concurrency + passed, has_policy=self._runtime.policy.is_given, only=self._only,
        )  # fmt: skip
        free = [one for one in found if one.uid not in self.running and self._may_try(one)]
        for one in free if self.running else sorted(free, key=lambda one: not one.has_crashed):
            if len(self.running) >= self._concurrency or await self._runs_alone():
                return
            if one.has_crashed:
                since = self._suspect_since.setdefault(one.uid, store.clock.boot())
                if self.running and not self.is_past(since, ALONE):
                    continue
                logger.info("Session %s: its last worker crashed, so it runs alone at first.", one.uid)
                self._suspect, self._suspect_since[one.uid] = one, store.clock.boot()
            self.running[one.uid] = asyncio.ensure_future(self._run(one))

    async def _runs_alone(self) -> bool:
        """Whether a session that may crash this worker was started and has made no progress yet."""
        one = self._suspect
        if one is None or one.uid not in self.running or self.is_past(self._suspect_since[one.uid], ALONE):
            return False
        now = await self._runtime.store.read(entry, one.uid)
        return now is not None and now.cursor <= one.cursor + 1  # only its lease was acquired

    def _may_try(self, one: Entry) -> bool:
        held = self._held_since.get(one.uid)
        return self.failed_at_cursor.get(one.uid) != one.cursor and (held is None or self.is_past(held, POLL))

    async def _run(self, one: Entry) -> None:
        try:
            view = await self._runtime.run(one.uid)
        except (LeaseHeld, LeaseLost) as error:
            logger.info("Session %s: it is not run here [%s].", one.uid, error.code)
            self._held_since[one.uid] = self._runtime.store.clock.boot()
            return
        except (StoreUnavailable, StoreFull):  # late outcomes are written when the store is back; then it is run again
            self._held_since[one.uid] = self._store_failed_at = self._runtime.store.clock.boot()
            return
        except Exception as error:  # a session that cannot be run must not block the others
            now = await self._runtime.store.read(entry, one.uid)
            self.failed_at_cursor[one.uid] = one.cursor if now is None else now.cursor
            self.failed = True
            logger.info("Session %s: it cannot be run here (%s).", one.uid, type(error).__name__)
            self._notify(WorkerNotice("worker.failed", session=one.id, error=error))
            return
        self._notify(WorkerNotice("worker.left", session=view.id, status=view.status))
