"""Limits of model providers as people see and change them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec import UNSET, UnsetType

from perdure.domain.rate_limit import RateLimit
from perdure.errors import ConfigError
from perdure.store.moves import rate_limit
from perdure.store.store import Store


class RateLimits:
    """The limits of a store. `by` is who changes them, unless a call names another person."""

    def __init__(self, store: Store, by: str) -> None:
        self._store = store
        self._by = by

    async def rate_limits(self) -> AsyncIterator[RateLimit]:
        """The limits of model providers that all workers share, by name."""
        for one in await self._store.read(rate_limit.listing, limit=1_000_000):
            yield one

    async def set_rate_limit(
        self, name: str, *, requests: int | UnsetType | None = UNSET, tokens: int | UnsetType | None = UNSET,
        by: str | None = None,
    ) -> RateLimit:  # fmt: skip
        """Set how many requests and tokens a minute a provider (`anthropic`) or a model (`anthropic:NAME`) accepts.

        All workers of the store keep to it together. What is not given stays, and None removes a limit.
        """
        if requests is UNSET and tokens is UNSET:
            raise ConfigError(f"No change of the limit {name} was given.", hint="Give requests, tokens or both.")
        return await self._store.write(rate_limit.set_limit(name, by or self._by, requests, tokens))
