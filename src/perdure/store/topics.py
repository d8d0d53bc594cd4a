"""The topics of wake-ups that moves announce. This module imports little, because every command loads it."""

from __future__ import annotations

from perdure.ids import digest

ALL_QUEUES = "queue"
TIMERS, APPROVALS, SCHEDULES = "service:timers", "service:approvals", "service:schedules"
WORKERS, QUEUES = "service:workers", "service:queues"


def queue_topic(queue: str) -> str:
    """The topic of a queue: short, whatever the queue is called."""
    return f"queue:{digest(queue)[:24]}"
