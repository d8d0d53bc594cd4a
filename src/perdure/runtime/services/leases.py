"""Leases whose holder is gone: their sessions are made ready again.

A worker of this host whose presence lock is free is dead. Its lock is tested every second, without reading the store,
and its sessions are freed at once. On other hosts the end of the lease decides. This frees leases only: whether an act
has ended is decided by the recovery of its effect.

A lease ends at the earliest one `ttl` after a session became ready. So the service looks when the first known lease
ends, and while none is known, one `ttl` after a session became ready.
"""

from __future__ import annotations

import asyncio

from perdure.clock import SECOND
from perdure.domain.worker import Liveness, WorkerRecord
from perdure.runtime.runtime import Runtime
from perdure.runtime.services.retries import Retries
from perdure.runtime.services.service import Failed, Service, log_failure
from perdure.store.move import Move
from perdure.store.moves import lease, worker
from perdure.store.topics import ALL_QUEUES, APPROVALS, SCHEDULES, TIMERS, WORKERS

BATCH = 100
TEST = 1.0  # seconds between two tests of the locks of workers
LAST_WAKEUPS = (TIMERS, APPROVALS, SCHEDULES, ALL_QUEUES)  # a process may die after a commit, before it reports it
WORKERS_READ = 300 * SECOND  # between two readings of the workers, if no wake-up reports a new one


class Leases(Service):
    """Frees the sessions of dead workers, and those whose lease has ended."""

    name = "leases"
    topics = (WORKERS, ALL_QUEUES)
    poll = 120.0

    def __init__(self, runtime: Runtime, failed: Failed = log_failure) -> None:
        super().__init__(runtime, failed)
        self._retries: Retries[str] = Retries(self.store.clock, failed)
        self._workers: list[WorkerRecord] = []  # that are not known to be dead
        self._freed: set[str] = set()  # dead workers whose sessions are free
        self._workers_seen = -1
        self._workers_read_at = 0
        self._queues_seen = -1
        self._has_dead = False  # the lock of a worker was found free

    def is_due(self) -> bool:
        """New sessions only bring the next look forward; new workers and dead ones cause one."""
        wakeups, boot = self.store.wakeups, self.store.clock.boot()
        if wakeups.has_changed(self._queues_seen, ALL_QUEUES):
            self._queues_seen = wakeups.version
            self.look_at = min(self.look_at, boot + self.runtime.heartbeat.ttl)
        return self._has_dead or boot >= self.look_at or wakeups.has_changed(self._workers_seen, WORKERS)

    async def look(self) -> int | None:
        self._has_dead = False
        await self._read_workers()
        for row in [row for row in self._workers if self.runtime.worker.life(row) is Liveness.DEAD]:
            await self._free(row)
        return await self._expire()

    async def _read_workers(self) -> None:
        version, boot = self.store.wakeups.version, self.store.clock.boot()
        if not self.store.wakeups.has_changed(self._workers_seen, WORKERS):
            if self._workers_seen >= 0 and boot - self._workers_read_at < WORKERS_READ:
                return
        found = await self.store.read(worker.listing)
        self._freed &= {row.id for row in found}
        self._workers = [row for row in found if row.id not in self._freed]
        self._workers_seen, self._workers_read_at = version, boot

    async def _free(self, row: WorkerRecord) -> None:
        by, because = self.runtime.worker.name, f"{row.holder} was found dead"
        for uid in await self.store.read(lease.of_holder, row.holder):
            await self._write(uid, lease.free(uid, by, holder=row.holder, because=because))
        await self.runtime.requests.wake_stale_parents()  # it may have died after a child ended and before this
        self.store.wakeups.announce(LAST_WAKEUPS)
        self._freed.add(row.id)
        self._workers.remove(row)

    async def _expire(self) -> int | None:
        """End leases whose time is over, and return when the next one ends."""
        tried: set[str] = set()
        while True:
            found = await self.store.read(lease.first_ends, limit=BATCH + len(self._retries) + len(tried))
            now = self.store.clock.now()
            self._retries.keep({uid for uid, _ in found})
            ended = [uid for uid, until in found if until < now and uid not in tried and self._retries.may_try(uid)]
            if not ended:
                return next((until + 1 for _, until in found if until >= now), now + SECOND if tried else None)
            for uid in ended:
                tried.add(uid)
                await self._write(uid, lease.expire(uid, self.runtime.worker.name, ttl=self.runtime.heartbeat.ttl))

    async def _write(self, uid: str, move: Move[bool]) -> None:
        await self._retries.handle(uid, uid, lambda: self.store.write(move))

    async def run(self) -> None:
        testing = asyncio.ensure_future(self._test_locks())
        try:
            await super().run()
        finally:
            testing.cancel()

    async def _test_locks(self) -> None:
        """Test the locks of workers, and look if one is free."""
        while True:
            await asyncio.sleep(TEST)
            if any(self.runtime.worker.life(row) is Liveness.DEAD for row in self._workers):
                self._has_dead = True
                self.store.wakeups.bump([WORKERS])
