"""The topics of wake-ups that moves announce. This module imports little, because every command loads it."""

from __future__ import annotations

from collections.abc import Collection

from perdure.ids import digest

ALL_QUEUES = "queue"
TIMERS, APPROVALS, SCHEDULES = "service:timers", "service:approvals", "service:schedules"
WORKERS, QUEUES = "service:workers", "service:queues"
NOTIFICATIONS = "service:notifications"


def queue_topic(queue: str) -> str:
    """The topic of a queue: short, whatever the queue is called."""
    return f"queue:{digest(queue)[:24]}"


def queue_topics(queues: Collection[str] | None) -> list[str]:
    """The topics of these queues; None: of all queues."""
    return [ALL_QUEUES] if queues is None else [queue_topic(one) for one in queues]
