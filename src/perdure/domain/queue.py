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
