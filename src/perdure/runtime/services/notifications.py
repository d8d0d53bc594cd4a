"""The sender of notifications: it empties the outbox of the channels that the settings of this process describe.

Any number of processes may run it: each notification is claimed by one of them at a time. A channel is emptied by a
task of its own, so that a receiver which does not answer delays neither the other channels nor the worker whose
services these are.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from perdure.clock import SECOND
from perdure.errors import StoreError
from perdure.runtime.notifications.sender import deliver
from perdure.runtime.runtime import Runtime
from perdure.runtime.services.service import RETRY, Failed, Service, log_failure
from perdure.store.moves import notification
from perdure.store.topics import NOTIFICATIONS

logger = logging.getLogger(__name__)
TOGETHER = 4  # notifications of one channel that are sent at the same time
LAST = 5.0  # seconds that a process which ends gives to what it sends
REGISTERED = 600 * SECOND  # after which the channels are registered again: someone may have removed one


class NotificationSender(Service):
    """Sends what is due on each channel."""

    name = "notifications"
    topics = (NOTIFICATIONS,)
    poll = 300.0

    def __init__(self, runtime: Runtime, failed: Failed = log_failure) -> None:
        super().__init__(runtime, failed)
        self._channels = runtime.notification_outbox.channels  # wrong settings raise here, before anything runs
        self._asked: set[str] = set()  # channels whose task must look again before it ends
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._registered_at: int | None = None

    async def look(self) -> int | None:
        """Start the task of each channel that has something due, and return when the next one has."""
        if not self._channels:
            return None
        boot = self.store.clock.boot()
        if self._registered_at is None or boot - self._registered_at >= REGISTERED:
            await self.runtime.notification_outbox.register()
            self._registered_at = boot
        later: list[int] = []
        for name in self._channels:
            for one in await self.store.read(notification.first_due, name, limit=1):
                if one.next_at > self.store.clock.now():
                    later.append(one.next_at)
                    continue
                self._asked.add(name)
                if name not in self._tasks:
                    self._tasks[name] = asyncio.ensure_future(self._empty(name))
        return min(later, default=None)

    async def _empty(self, name: str) -> None:
        """Send what is due on a channel; afterwards the service looks when the next attempt is due."""
        try:
            while name in self._asked:
                self._asked.discard(name)
                while await self._send_some(name):
                    pass
        except Exception:
            logger.exception("The notifications of %s are not sent now.", name)
            self._asked.discard(name)
        finally:
            del self._tasks[name]
            self.store.wakeups.bump([NOTIFICATIONS])

    async def _send_some(self, name: str) -> bool:
        """Send a few of those that are due; returns whether there were any."""
        try:
            found = await self.store.read(notification.first_due, name, limit=TOGETHER)
            due = [one for one in found if one.next_at <= self.store.clock.now()]
            by = self.runtime.worker.name
            await asyncio.gather(*(deliver(self.store, self._channels[name], one, by=by) for one in due))
        except StoreError as error:
            logger.warning("The notifications of %s wait for the store [%s].", name, error.code)
            await asyncio.sleep(RETRY)
            return True
        return bool(due)

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            await self._finish()

    async def _finish(self) -> None:
        """Send what is due now, such as the notification of a session that made a worker end; then stop."""
        try:
            with suppress(Exception):
                await self.look()
            if self._tasks:
                await asyncio.wait(self._tasks.values(), timeout=LAST)
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
