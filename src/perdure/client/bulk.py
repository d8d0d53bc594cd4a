"""Changes of many sessions through a service: each is a request of its own, with an idempotency key of its own.

A client that is stopped has changed the first ones; the same call again changes the others. A refusal of one does not
stop the others, but a service that cannot be reached, or that refuses the caller, does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError, NotAuthenticated, PerdureError, StoreError, TooManyRequests
from perdure.runtime.definitions.program import Bound
from perdure.runtime.queries import SessionView
from perdure.runtime.start.failed_sessions import BulkEdit

AT_ONCE = 8  # requests at a time
STOPS = (StoreError, NotAuthenticated, TooManyRequests)

Start = Callable[[Bound[Any], str | None], Awaitable[SessionView]]


async def start_many(start: Start, bounds: Sequence[Bound[Any]], ids: Sequence[str] | None) -> list[str]:
    """Start sessions; returns their ids in order."""
    if ids is not None and (len(ids) != len(bounds) or len(set(ids)) != len(ids)):
        raise ConfigError(f"{len(bounds)} sessions need {len(bounds)} different ids; {len(set(ids))} given.")
    given = list(zip(bounds, ids if ids is not None else [None] * len(bounds), strict=True))
    started: list[str] = []
    for first in range(0, len(given), AT_ONCE):
        found = await all_of([start(bound, id) for bound, id in given[first : first + AT_ONCE]])
        started += [one.id for one in found]
    return started


async def change_failed(listing: AsyncIterator[SessionRecord], change: Callable[[str], Awaitable[Any]]) -> BulkEdit:
    """Change each session of a list, and tell which were refused."""
    found = [one async for one in listing]  # a session that is changed leaves the list
    changed: list[str] = []
    refused: dict[str, str] = {}

    async def attempt(one: SessionRecord) -> None:
        try:
            await change(one.uid)
        except STOPS:
            raise
        except PerdureError as error:
            refused[one.id] = error.message
        else:
            changed.append(one.id)

    for first in range(0, len(found), AT_ONCE):
        await all_of([attempt(one) for one in found[first : first + AT_ONCE]])
    order = {one.id: number for number, one in enumerate(found)}
    return BulkEdit(tuple(sorted(changed, key=order.__getitem__)), refused)


async def all_of(work: Sequence[Awaitable[Any]]) -> list[Any]:
    """The results of requests that run side by side; raises the first error when all have ended."""
    found = await asyncio.gather(*work, return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return list(found)
