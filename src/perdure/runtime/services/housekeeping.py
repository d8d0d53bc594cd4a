"""Housekeeping: removes the rows of workers that have ended, and finishes a migration that waited for old workers."""

from __future__ import annotations

import asyncio
import logging

from perdure.clock import SECOND
from perdure.domain.worker import Liveness, WorkerRecord
from perdure.runtime.deploy.migration import migrate_store
from perdure.runtime.services.service import Service
from perdure.store import migrate
from perdure.store.moves import meta, worker

logger = logging.getLogger(__name__)
UNSEEN = 7 * 24 * 3600 * SECOND  # after which a worker is forgotten, if this machine cannot tell whether it lives
DEAD = 3600 * SECOND  # how long a worker that is dead stays listed


class Housekeeping(Service):
    """Forgets workers that hold no session: dead ones of this machine, and those not seen for a week.

    It also applies what `perdure migrate` left because workers of an older version were running, when none is left.
    """

    name = "housekeeping"
    topics = ()
    poll = 600.0

    async def look(self) -> int | None:
        await self._finish_migration()
        now = self.store.clock.now()
        gone = [one for one in await self.store.read(worker.listing) if self._is_gone(one, now)]
        if gone:
            await self.store.write(worker.forget_idle(gone))
        return None

    async def _finish_migration(self) -> None:
        version = await self.store.read(meta.get, "schema_version")
        if int(version or 0) >= migrate.known():
            return
        try:
            done = await asyncio.to_thread(migrate_store, self.store.target)
        except Exception as error:  # such as a role that may not change tables: the store works as it is
            logger.info("The migration of the store could not be finished (%s).", error)
            return
        if done.after > done.before:
            logger.info("The schema was migrated from version %s to %s.", done.before, done.after)

    def _is_gone(self, one: WorkerRecord, now: int) -> bool:
        life = self.runtime.worker.life(one)
        return (life is Liveness.DEAD and now - one.seen_at > DEAD) or (
            life is Liveness.CANNOT_TELL and now - one.seen_at > UNSEEN
        )
