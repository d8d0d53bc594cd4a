"""Schedules: the sessions of their ticks are started when they are due.

Any number of processes may run it: a tick is handled by the first of them, in one transaction (`store.moves.schedule`).
"""

from __future__ import annotations

from perdure.runtime.services.service import Service
from perdure.store.topics import SCHEDULES


class ScheduleService(Service):
    """Starts the sessions of all ticks that are due."""

    name = "schedules"
    topics = (SCHEDULES,)
    poll = 300.0

    async def look(self) -> int | None:
        return await self.runtime.schedule_handler.handle_due()
