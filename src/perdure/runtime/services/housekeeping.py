"""Housekeeping: removes rows that are not needed any more, and finishes a migration that waited for old workers."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from perdure.clock import SECOND
from perdure.domain.worker import Liveness, WorkerRecord
from perdure.errors import NotPermitted
from perdure.runtime.deploy.migration import migrate_store
from perdure.runtime.policy.active_policy import state_in
from perdure.runtime.search import rewrite_index
from perdure.runtime.services.service import Service
from perdure.store import migrate
from perdure.store.moves import access, meta, notification, request, token, worker

logger = logging.getLogger(__name__)
HOUR = 3600 * SECOND  # between two searches for old rows
UNSEEN = 7 * 24 * 3600 * SECOND  # after which a worker is forgotten, if this machine cannot tell whether it lives
TOLD = 30 * 24 * 3600 * SECOND  # how long a notification that was sent or given up stays listed
DEAD = 3600 * SECOND  # how long a worker that is dead stays listed
ENDED = 90 * 24 * 3600 * SECOND  # how long a token that has ended stays listed
REPEATED = 24 * 3600 * SECOND  # for how long a request with an idempotency key can be sent again


class Housekeeping(Service):
    """Forgets workers that hold no session: dead ones of this machine, and those not seen for a week; and old
    notifications.

    It forgets requests with an idempotency key after a day; the same key is then a new request. Tokens are forgotten 90
    days after they were revoked or expired. The log of reads is kept for as long as the policy says (`[log_access]
    keep`), or until `perdure prune --access`.

    It also applies what `perdure migrate` left because workers of an older version were running, when none is left.
    """

    name = "housekeeping"
    topics = ()
    poll = 600.0
    _forgot_at: int | None = None  # when old rows were last searched for
    migrations: list[migrate.Migration] | None = None  # those of this code, if no others are given

    async def look(self) -> int | None:
        await self._finish_migration()
        now = self.store.clock.now()
        with suppress(NotPermitted):
            await self._forget_workers(now)
        if self._forgot_at is None or now - self._forgot_at >= HOUR:
            for forget in (self._forget_notifications, self._forget_requests, self._forget_tokens, self._forget_reads):
                with suppress(NotPermitted):  # another process does it, whose role in the database may
                    await forget(now)
            await rewrite_index(self.store)
            self._forgot_at = now
        return None

    async def _forget_workers(self, now: int) -> None:
        gone = [one for one in await self.store.read(worker.listing) if self._is_gone(one, now)]
        if gone:
            await self.store.write(worker.forget_idle(gone))

    async def _forget_notifications(self, now: int) -> None:
        if await self.store.read(notification.has_older, now - TOLD):
            await self.store.write(notification.forget(now - TOLD))

    async def _forget_requests(self, now: int) -> None:
        while await self.store.read(request.has_before, now - REPEATED):
            await self.store.write(request.forget(now - REPEATED))

    async def _forget_tokens(self, now: int) -> None:
        while await self.store.read(token.has_ended_before, now - ENDED):
            await self.store.write(token.forget(now - ENDED))

    async def _forget_reads(self, now: int) -> None:
        document = (await self.store.read(state_in)).document
        if document is None or document.log_access_keep is None:
            return
        before = now - round(document.log_access_keep * SECOND)
        while await self.store.read(access.count, before):
            await self.store.write(access.forget(before, self.runtime.worker.name))

    async def _finish_migration(self) -> None:
        version = await self.store.read(meta.get, "schema_version")
        if int(version or 0) >= (len(self.migrations) if self.migrations else migrate.known()):
            return
        try:
            done = await asyncio.to_thread(migrate_store, self.store.target, self.migrations)
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
