"""A stream of server-sent events as an answer.

heartbeat   a comment, after a while without an event: proxies and clients see that the stream lives
closed      the last event of a stream that the service ends, with the reason; the client comes back with the number
            of its last event

    stopping      the service stops or is started again
    slow          the client took nothing for a while
    access        the caller may not read this any more
    unavailable   whether it may could not be found out
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from perdure.errors import PerdureError
from perdure.server.operation import EVENT_STREAM, Context
from perdure.server.problem import request_id
from perdure.server.settings import ServerSettings
from perdure.server.stream.admission import UNKNOWN, StreamAdmission

logger = logging.getLogger(__name__)
HEADERS = [
    (b"content-type", EVENT_STREAM.encode() + b"; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
HEARTBEAT = b": still here\n\n"
RETRY = b"retry: 1000\n\n"  # milliseconds after which a browser comes back
LAST_WORDS = 5.0  # seconds in which a slow client may still take the reason


class EventStream(Response):
    """Sends what `source` gives: chunks, an empty one when there was nothing for a while."""

    def __init__(self, context: Context, source: AsyncGenerator[bytes, None], admission: StreamAdmission) -> None:
        self.status_code, self.background = 200, None
        self._context = context
        self._source = source
        self._admission = admission
        self._settings: ServerSettings = context.request.app.state.settings
        self._stopping: asyncio.Event = context.request.app.state.stopping

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        with self._admission.enter(self._context.caller):
            pump = asyncio.create_task(self._pump(send))
            gone = asyncio.create_task(_disconnected(receive))
            try:
                await asyncio.wait((pump, gone), return_when=asyncio.FIRST_COMPLETED)
                if pump.done():
                    await pump
            finally:
                for task in (pump, gone):
                    task.cancel()
                    with suppress(asyncio.CancelledError, Exception):
                        await task

    async def _pump(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        try:
            reason = await self._send_all(send)
        except PerdureError as error:
            logger.info("A stream ended (%s).", error, extra={"request_id": request_id(self._context.request)})
            reason = UNKNOWN
        except TimeoutError:
            reason = "slow"
            logger.info("A stream was dropped: its client took nothing for %g s.", self._settings.slow)
        closed = b"event: closed\ndata: %s\n\n" % msgspec.json.encode({"reason": reason})
        try:
            async with asyncio.timeout(min(LAST_WORDS, self._settings.slow)):
                await send({"type": "http.response.body", "body": closed, "more_body": False})
        except TimeoutError:
            self._context.request.scope["state"]["abort"]()  # closing would wait for the client

    async def _send_all(self, send: Send) -> str:
        """Send until the stream must end; returns why. Raises TimeoutError for a slow client."""
        loop = asyncio.get_running_loop()
        checked = sent = loop.time()
        await self._send(send, RETRY)
        async with aclosing(self._source) as source:
            async for chunk in source:
                if self._stopping.is_set():
                    break
                now = loop.time()
                if now - checked >= self._settings.recheck:
                    checked = now
                    if (refused := await self._refusal(send)) is not None:
                        return refused
                if chunk or now - sent >= self._settings.heartbeat:
                    sent = now
                    await self._send(send, chunk or HEARTBEAT)
        return "stopping"

    async def _refusal(self, send: Send) -> str | None:
        """Why the stream must end, if it must. Only signs of life are sent until the store has answered."""
        asked = asyncio.create_task(self._admission.refusal(self._context))
        try:
            while not asked.done():
                await asyncio.wait((asked,), timeout=self._settings.heartbeat)
                if not asked.done():
                    await self._send(send, HEARTBEAT)
            return asked.result()
        finally:
            asked.cancel()

    async def _send(self, send: Send, chunk: bytes) -> None:
        async with asyncio.timeout(self._settings.slow):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
