"""The service of schedules: starts the sessions of their ticks.

It sleeps until the next tick is due or a schedule is changed. Any number of processes may run it: a tick is handled by
the first of them (`store.moves.schedule`). Killed at any moment, it leaves a tick handled or not handled.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from perdure.clock import SECOND
from perdure.errors import StoreFull, StoreUnavailable
from perdure.store.writer.wakeup import IDLE_POLL, SCHEDULES

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime

logger = logging.getLogger(__name__)
OUTAGE = 2.0  # seconds until an unavailable store is tried again
EARLY = 0.001  # seconds by which a timer may end too early


class ScheduleService:
    """Handles the ticks of all schedules of a store."""

    name = "schedules"

    async def run(self, runtime: Runtime) -> None:
        """Handle ticks until cancelled."""
        store, available = runtime.store, True
        while True:
            seen = store.wakeups.version
            try:
                due = await runtime.schedule_handler.handle_due()
            except (StoreUnavailable, StoreFull) as error:
                if available:
                    logger.info("The store is unavailable [%s]; schedules wait for it.", error.code)
                available, seconds = False, OUTAGE
            else:
                left = IDLE_POLL if due is None else (due - store.clock.now()) / SECOND + EARLY
                available, seconds = True, min(IDLE_POLL, max(0.0, left))
            await store.wakeups.wait_topics(seen, [SCHEDULES], seconds)
