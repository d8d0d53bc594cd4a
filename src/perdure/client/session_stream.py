"""A session of a service as typed events: its log and the live text of its model, in one order.

The log is exact. Live text is lossy, and is dropped once the message that it belongs to is in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.client.connection import ServiceCall
from perdure.client.event_stream import MEDIA, SILENCE, StreamMessage, messages
from perdure.client.verbs import segment
from perdure.domain.event import Event
from perdure.domain.session import TERMINAL
from perdure.errors import PerdureError
from perdure.runtime.live_text.delta import Delta, RetryNotice
from perdure.runtime.stream.builder import StreamBuilder
from perdure.runtime.stream.events import StreamEvent

if TYPE_CHECKING:
    from perdure.client.remote_runtime import RemoteRuntime

AGAIN = 1.0  # seconds after which live text that was lost is asked for again
MOST = 1000  # pieces that wait for a slow reader


class ServiceValues:
    """Values of a log whose large ones are artifacts: they are shown as the log has them."""

    def get_whole(self, value: Any) -> Any:
        return value


async def stream(runtime: RemoteRuntime, name: str, after: int = 0) -> AsyncGenerator[StreamEvent, None]:
    """The events of a session until it has ended, wherever it runs."""
    view = await runtime.get(name)
    if view.status in TERMINAL and after >= view.cursor:
        return
    builder = StreamBuilder(view.id, ServiceValues())
    builder.number = after
    pieces: asyncio.Queue[Event | Delta | PerdureError] = asyncio.Queue(MOST)
    tasks = [
        asyncio.create_task(_put_events(runtime, view.uid, after, pieces)),
        asyncio.create_task(_put_live_text(runtime, view.uid, pieces)),
    ]
    try:
        while not builder.finished:
            one = await pieces.get()
            if isinstance(one, PerdureError):
                raise one
            for event in builder.event(one) if isinstance(one, Event) else builder.delta(one):
                yield event
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _put_events(runtime: RemoteRuntime, uid: str, after: int, pieces: asyncio.Queue[Any]) -> None:
    try:
        async for one in runtime.events(uid, after=after, follow=True):
            await pieces.put(one)
    except PerdureError as error:
        await pieces.put(error)


async def _put_live_text(runtime: RemoteRuntime, uid: str, pieces: asyncio.Queue[Any]) -> None:
    async for one in live_text(runtime, uid):
        with suppress(asyncio.QueueFull):  # lossy: the log has it whole
            pieces.put_nowait(one)


async def live_text(runtime: RemoteRuntime, uid: str) -> AsyncIterator[Delta]:
    """What the model of a session writes now, without end. A lost connection loses pieces."""
    call = ServiceCall("GET", f"/v1/sessions/{segment(uid)}/live", {})
    while True:
        with suppress(PerdureError):  # the events tell what is wrong
            async with runtime.connection.stream(call, {"Accept": MEDIA}, SILENCE) as answer:
                async for message in messages(answer.aiter_bytes()):
                    if (piece := delta_of(uid, message)) is not None:
                        yield piece
        await asyncio.sleep(AGAIN)


def delta_of(uid: str, message: StreamMessage) -> Delta | None:
    """The piece of live text in a message; None for messages of other kinds."""
    if message.kind not in ("text", "discard", "retry"):
        return None
    try:
        found = msgspec.json.decode(message.data)
        retry = msgspec.convert(found, RetryNotice) if message.kind == "retry" else None
        return Delta(uid, found["call"], found["after"], found.get("text", ""), message.kind == "discard", retry)
    except (msgspec.MsgspecError, KeyError, TypeError):
        return None  # of a newer service
