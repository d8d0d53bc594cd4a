"""The stream of a session that runs here, in a task that ends with the stream.

A reader that leaves early stops the run, not the session: the lease is given back, an act that has begun is seen
through, and the session continues when it is run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from perdure.domain.session import Status
from perdure.domain.wait import WaitKind
from perdure.errors import SessionWaiting
from perdure.runtime.queries import SessionView
from perdure.runtime.runtime import Runtime
from perdure.runtime.stream.events import StreamEvent
from perdure.runtime.stream.stream import open_stream


async def run_stream(runtime: Runtime, name: str) -> AsyncGenerator[StreamEvent, None]:
    """Run a session and yield its events. Raises `SessionWaiting` if only a person can continue it, and none did."""
    view = await runtime.get(name)
    await asyncio.to_thread(lambda: runtime.live_text.folder)  # on PostgreSQL, its first use reads the store
    running = asyncio.ensure_future(runtime.complete(view.uid))
    try:
        with open_stream(runtime, view) as watched:
            while not watched.builder.finished:
                has_ended = running.done()  # tested before the poll, which then reads all that the run recorded
                found = await watched.poll()
                for one in found:
                    yield one
                if not found and has_ended:
                    await _check_end(runtime, view.uid, running)
                    running = asyncio.ensure_future(runtime.complete(view.uid))
                elif not found:
                    await watched.wait()
    finally:
        running.cancel()
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # it was reported already, or the reader left


async def _check_end(runtime: Runtime, uid: str, running: asyncio.Future[SessionView]) -> None:
    """Raise what the run raised, unless the session can continue: the reader may have answered meanwhile."""
    try:
        await running
    except SessionWaiting:
        if not await _can_continue(runtime, await runtime.get(uid)):
            raise


async def _can_continue(runtime: Runtime, view: SessionView) -> bool:
    children = [one.ref for one in view.waits if one.kind == WaitKind.CHILD and one.ref is not None]
    if view.status != Status.WAITING:
        return True
    return any([await _can_continue(runtime, await runtime.get(uid)) for uid in children])
