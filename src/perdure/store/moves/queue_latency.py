"""Reads of what queues got done. Each reads sessions that changed lately, along the index of changes, and of each only
the first and the last events: what is older costs nothing, however much there is."""

from __future__ import annotations

from perdure.domain.queue_latency import DAY, EndedSession, QueueLatency, summary
from perdure.store.move import StoreTransaction

MOST = 20_000  # sessions that one read looks at, the last changed first


def of_queues(tx: StoreTransaction, *, queue: str | None = None, most: int = MOST) -> list[QueueLatency]:
    """The numbers of each queue in which a session ended within a day, by name; or of one queue, also without any."""
    since = tx.now - DAY
    found: dict[str, list[EndedSession]] = {} if queue is None else {queue: []}
    for row in tx.all("queue.ended", since=since, most=most, queue=queue):
        one = EndedSession(*row)
        if one.ended_at > since:
            found.setdefault(one.queue, []).append(one)
    changed = tx.one("queue.changed_since", since=since, most=most + 1)
    is_complete = changed is None or changed[0] <= most
    return [summary(name, found[name], tx.now, is_complete=is_complete) for name in sorted(found)]


def of_queue(tx: StoreTransaction, name: str) -> QueueLatency:
    """The numbers of one queue."""
    return of_queues(tx, queue=name)[0]
