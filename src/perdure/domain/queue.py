"""A queue: where sessions wait for a worker, and how many of them may run."""

from __future__ import annotations

from perdure.domain.record import Record


class Queue(Record, frozen=True):
    """A row of `queue`. A queue without a row has no limits. None means no limit; times are in microseconds."""

    name: str
    concurrency: int | None  # sessions that run at a time, in all
    per_key: int | None  # and for each key
    per_worker: int | None  # and in each worker
    rate_count: int | None  # runs that may begin in each period
    rate_period: int | None
    rate_at: int | None  # when the rate is used up to; the past means that nothing is used
    max_depth: int | None  # sessions that may be ready
    paused_at: int | None  # nothing is claimed
    closed_at: int | None  # nothing new is started
    version: int
    updated_by: str
    updated_at: int

    @property
    def limits_claims(self) -> bool:
        """Whether a claim must lock this row: it is paused, or limits how many sessions run."""
        limits = (self.concurrency, self.per_key, self.per_worker, self.rate_count, self.paused_at)
        return any(one is not None for one in limits)


class QueueView(Record, frozen=True):
    """A queue with its limits and the numbers of its sessions. Periods and times are in microseconds."""

    name: str
    concurrency: int | None = None
    per_key: int | None = None
    per_worker: int | None = None
    rate_count: int | None = None
    rate_period: int | None = None
    max_depth: int | None = None
    paused_at: int | None = None
    closed_at: int | None = None
    version: int = 0  # 0: it was never changed
    updated_by: str | None = None
    updated_at: int | None = None
    ready: int = 0
    running: int = 0
    slot: int = 0  # sessions that wait for a slot
    waiting: int = 0  # sessions that wait for something else, of at most 20,000 in all queues
    failed: int = 0  # failed sessions without a retry left that are not archived
    oldest_ready_at: int | None = None  # since when the longest wait of the next sessions lasts
