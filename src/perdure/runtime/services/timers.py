"""Timers and approvals: waits are resolved when they are due, and sessions are cancelled at their deadline.

The wait of a program that sleeps, of a question with a time limit and of a retry is due at its time, and so is the wait
for an approval that was not given in time. Handling one a second time changes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from perdure.clock import SECOND
from perdure.runtime.run.lineage import wake_stale_branches
from perdure.runtime.runtime import Runtime
from perdure.runtime.services.retries import Retries
from perdure.runtime.services.service import Failed, Service, log_failure
from perdure.store.moves import approval, wait
from perdure.store.topics import APPROVALS, TIMERS

BATCH = 100
STALE = 300 * SECOND  # between two searches for branches that were not woken


class DueTimes(Service):
    """Handles what is due. What cannot be handled is reported once, and does not stop the rest."""

    approvals: ClassVar[bool]  # whether it is for approvals, or for everything else

    def __init__(self, runtime: Runtime, failed: Failed = log_failure) -> None:
        super().__init__(runtime, failed)
        self._retries: Retries[tuple[str, str]] = Retries(self.store.clock, failed)
        self._late: Retries[tuple[str, str]] = Retries(self.store.clock, failed)

    async def look(self) -> int | None:
        tried: set[tuple[str, str]] = set()
        while True:
            found = await self.store.read(
                wait.first_due, approvals=self.approvals, limit=BATCH + len(self._retries) + len(tried)
            )
            now = self.store.clock.now()
            self._retries.keep({one.key for one in found})
            due = [
                one for one in found if one.due_at <= now and one.key not in tried and self._retries.may_try(one.key)
            ]
            if not due:
                return next((one.due_at for one in found if one.due_at > now), None)
            for one in due:
                tried.add(one.key)
                await self._retries.handle(one.key, one.session_uid, partial(self._handle, one))

    async def _handle(self, due: wait.Due) -> None:
        if due.kind == wait.DEADLINE:
            await self.runtime.requests.expire_deadline(due.session_uid)
        else:
            await self.runtime.driver.fire(due)


class Timers(DueTimes):
    """Resolves all waits that are due, except approvals; cancels sessions at their deadline; wakes branches that were
    not woken."""

    name = "timers"
    topics = (TIMERS,)
    approvals = False

    def __init__(self, runtime: Runtime, failed: Failed = log_failure) -> None:
        super().__init__(runtime, failed)
        self._woke_branches_at: int | None = None

    async def look(self) -> int | None:
        boot = self.store.clock.boot()
        if self._woke_branches_at is None or boot - self._woke_branches_at >= STALE:
            await wake_stale_branches(self.store, self.runtime.worker.name)
            await self.runtime.requests.wake_stale_parents()
            self._woke_branches_at = boot
        return await super().look()


class Approvals(DueTimes):
    """Ends approvals that were not given in time, and asks more people about those that wait for long."""

    name = "approvals"
    topics = (APPROVALS,)
    poll = 600.0
    approvals = True

    async def look(self) -> int | None:
        found = await self.store.read(approval.first_escalations, limit=BATCH + len(self._late))
        now = self.store.clock.now()
        self._late.keep({(one.session_uid, one.id) for one in found})
        for one in (one for one in found if one.at <= now):
            key = (one.session_uid, one.id)
            if self._late.may_try(key):
                await self._late.handle(key, one.session_uid, partial(self.runtime.requests.escalate, one))
        next_one = next((one.at for one in found if one.at > now), None)
        if next_one is None and len(found) >= BATCH > len(self._late):
            next_one = now  # there may be more
        return min((due for due in (next_one, await super().look()) if due is not None), default=None)
