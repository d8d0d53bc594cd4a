"""A rate limit: how many requests and tokens a model provider accepts in a minute, for all workers together."""

from __future__ import annotations

from perdure.domain.record import Record


class RateLimit(Record, frozen=True):
    """A row of `rate_limit`. None means no limit; times are in microseconds."""

    name: str  # of a model provider, or of one of its models
    requests: int | None  # in a minute
    tokens: int | None  # in a minute
    requests_at: int | None  # when the requests are used up to
    tokens_at: int | None
    blocked_until: int | None  # the provider asked all callers to wait
    updated_by: str
    updated_at: int
