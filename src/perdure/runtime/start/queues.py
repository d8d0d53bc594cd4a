"""Queues as people see and change them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

from msgspec import UNSET, UnsetType

from perdure.domain.queue import Queue, QueueView
from perdure.domain.queue_latency import QueueLatency
from perdure.errors import ConfigError
from perdure.ids import check_name
from perdure.runtime.definitions.durations import microseconds
from perdure.store.moves import queue as queues
from perdure.store.moves import queue_latency
from perdure.store.store import Store

_RATE = re.compile(r"\s*(\d{1,15})\s*/\s*(\S.*)\Z")


class Queues:
    """The queues of a store. `by` is who changes them, unless a call names another person."""

    def __init__(self, store: Store, by: str) -> None:
        self._store = store
        self._by = by

    async def queues(self) -> AsyncIterator[QueueView]:
        """The queues that have limits or sessions, with the numbers of their sessions, by name."""
        for one in await self._store.read(queues.listing, limit=1_000_000):
            yield one

    async def queue_latency(self, name: str) -> QueueLatency:
        """How many sessions of a queue ended in the last hour and day, how long they waited, and how long they ran."""
        return await self._store.read(queue_latency.of_queue, check_name("The queue", name))

    async def set_queue(
        self, name: str, *, concurrency: int | UnsetType | None = UNSET, per_key: int | UnsetType | None = UNSET,
        per_worker: int | UnsetType | None = UNSET, rate: str | UnsetType | None = UNSET,
        max_depth: int | UnsetType | None = UNSET, paused: bool | UnsetType = UNSET, closed: bool | UnsetType = UNSET,
        by: str | None = None,
    ) -> Queue:  # fmt: skip
        """Change the limits of a queue while it runs; what is not given stays, and None removes a limit.

        `rate` is a number and a duration, such as "10/1m". Nothing is claimed from a queue that is paused, and nothing
        new is started in one that is closed.
        """
        limits: dict[str, Any] = {"concurrency": concurrency, "per_key": per_key, "per_worker": per_worker}
        limits |= {"max_depth": max_depth, "paused": paused, "closed": closed}
        given = {key: value for key, value in limits.items() if value is not UNSET}
        if not isinstance(rate, UnsetType):
            given["rate_count"], given["rate_period"] = (None, None) if rate is None else parse_rate(rate)
        if not given:
            raise ConfigError(
                f"No change of the queue {name} was given.",
                hint="Give a limit, such as concurrency; or pause or close it.",
            )
        for state in ("paused", "closed"):
            if not isinstance(given.get(state, False), bool):
                raise ConfigError(f"`{state}` is true or false.")
        return await self._store.write(queues.set_limits(name, by or self._by, **given))


def parse_rate(text: str) -> tuple[int, int]:
    """A rate such as "10/1m": how many, and in how many microseconds."""
    found = _RATE.match(text)
    count, period = (int(found[1]), microseconds(found[2])) if found else (0, 0)
    if count < 1 or period < 1:
        raise ConfigError(f"{text!r} is not a rate.", hint='Write a number and a duration: "10/1m", "3/500ms".')
    return count, period
