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

    async def listing(self) -> AsyncIterator[QueueView]:
        """The queues that have settings or sessions, by name."""
        for one in await self._store.read(queues.listing, limit=1_000_000):
            yield one

    async def latency(self, name: str) -> QueueLatency:
        """Throughput and latency of one queue."""
        return await self._store.read(queue_latency.of_queue, check_name("The queue", name))

    async def set(
        self, name: str, *, rate: str | UnsetType | None = UNSET, by: str | None = None, **changes: Any
    ) -> Queue:
        """Change the settings of a queue; what is UNSET stays, and None removes a limit."""
        given = {key: value for key, value in changes.items() if value is not UNSET}
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
