"""Timers and approvals: waits are resolved when they are due.

The wait of a program that sleeps, of a question with a time limit and of a retry is due at its time, and so is the wait
for an approval that was not given in time. Resolving one a second time changes nothing.
"""

from __future__ import annotations

from typing import ClassVar

from perdure.clock import SECOND
from perdure.errors import StoreFull, StoreUnavailable
from perdure.runtime.run.lineage import wake_stale_branches
from perdure.runtime.runtime import Runtime
from perdure.runtime.services.service import Failed, Service, log_failure
from perdure.store.moves import wait
from perdure.store.writer.wakeup import APPROVALS, TIMERS

BATCH = 100
AGAIN = 60 * SECOND  # before a wait that could not be resolved is tried again
STALE = 300 * SECOND  # between two searches for branches that were not woken


class DueWaits(Service):
    """Resolves waits that are due. One that cannot be resolved is reported once, and does not stop the others."""

    approvals: ClassVar[bool]  # whether it is for approvals, or for all others

    def __init__(self, runtime: Runtime, failed: Failed = log_failure) -> None:
        super().__init__(runtime, failed)
        self._unresolved: dict[tuple[str, str], int] = {}  # when a wait that is due could not be resolved

    async def look(self) -> int | None:
        tried: set[tuple[str, str]] = set()
        while True:
            limit = BATCH + len(self._unresolved)
            found = await self.store.read(wait.first_due, approvals=self.approvals, limit=limit)
            now, boot = self.store.clock.now(), self.store.clock.boot()
            keys = {one.key for one in found}
            self._unresolved = {key: at for key, at in self._unresolved.items() if key in keys}
            due = [one for one in found if one.due_at <= now and one.key not in tried and self._may_try(one, boot)]
            for one in due:
                tried.add(one.key)
                await self._resolve(one, boot)
            if not due:
                return next((one.due_at for one in found if one.due_at > now), None)

    def _may_try(self, one: wait.Due, boot: int) -> bool:
        return boot - self._unresolved.get(one.key, -AGAIN) >= AGAIN

    async def _resolve(self, one: wait.Due, boot: int) -> None:
        is_known = one.key in self._unresolved
        try:
            await self.runtime.driver.fire(one)
        except (StoreUnavailable, StoreFull):
            raise
        except Exception as error:
            self._unresolved[one.key] = boot
            if not is_known:
                self.failed(one.session_uid, error)


class Timers(DueWaits):
    """Resolves all waits that are due, except approvals, and wakes branches that were not woken."""

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
            self._woke_branches_at = boot
        return await super().look()


class Approvals(DueWaits):
    """Ends approvals that were not given in time."""

    name = "approvals"
    topics = (APPROVALS,)
    poll = 300.0
    approvals = True
