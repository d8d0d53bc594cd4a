"""The deadline of a session that runs in this process without a worker: no service of a worker watches it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from perdure.clock import SECOND
from perdure.domain.session import SessionRecord

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime

LONGEST = 60.0  # seconds between two looks at the clock, which may be set


@asynccontextmanager
async def watch_deadline(runtime: Runtime, session: SessionRecord) -> AsyncIterator[None]:
    """Request the cancellation of a session when its deadline passes, as long as the block runs."""
    if session.deadline_at is None:
        yield
        return
    watching = asyncio.ensure_future(_expire(runtime, session.uid, session.deadline_at))
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError, Exception):  # the run reports what is wrong with the store
            await watching


async def _expire(runtime: Runtime, uid: str, deadline: int) -> None:
    left = deadline - runtime.store.clock.now()
    while left > 0:
        await asyncio.sleep(min(left / SECOND, LONGEST))
        left = deadline - runtime.store.clock.now()
    await runtime.requests.expire_deadline(uid)
