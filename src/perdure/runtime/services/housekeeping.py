"""Housekeeping: removes the rows of workers that have ended."""

from __future__ import annotations

from perdure.clock import SECOND
from perdure.domain.worker import Liveness, WorkerRecord
from perdure.runtime.services.service import Service
from perdure.store.moves import worker

UNSEEN = 7 * 24 * 3600 * SECOND  # after which a worker is forgotten, if this machine cannot tell whether it lives
DEAD = 3600 * SECOND  # how long a worker that is dead stays listed


class Housekeeping(Service):
    """Forgets workers that hold no session: dead ones of this machine, and those not seen for a week."""

    name = "housekeeping"
    topics = ()
    poll = 600.0

    async def look(self) -> int | None:
        now = self.store.clock.now()
        gone = [one for one in await self.store.read(worker.listing) if self._is_gone(one, now)]
        if gone:
            await self.store.write(worker.forget_idle(gone))
        return None

    def _is_gone(self, one: WorkerRecord, now: int) -> bool:
        life = self.runtime.worker.life(one)
        return (life is Liveness.DEAD and now - one.seen_at > DEAD) or (
            life is Liveness.CANNOT_TELL and now - one.seen_at > UNSEEN
        )
