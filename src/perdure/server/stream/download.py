"""A file as an answer, or a range of it, read as the client takes it.

slow    a client that takes nothing for `slow` seconds is dropped: it would keep the file open
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import BinaryIO

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

CHUNK = 1 << 18  # bytes


class Download(Response):
    """Sends bytes `first` to `last` of an open file, and closes it, whatever happens; then it calls `finish`."""

    def __init__(
        self, request: Request, file: BinaryIO, first: int, last: int, *, status: int, headers: dict[str, str],
        media: str, finish: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(None, status, {"Content-Length": str(last - first + 1), **headers}, media)
        self._file = file
        self._first = first
        self._size = last - first + 1
        self._finish = finish
        self._slow: float = request.app.state.settings.slow
        self._abort: Callable[[], None] = request.scope["state"].get("abort", lambda: None)

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for part in self._parts():
                async with asyncio.timeout(self._slow):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            self._abort()
        finally:
            await asyncio.to_thread(self._close)

    async def _parts(self) -> AsyncIterator[bytes]:
        await asyncio.to_thread(self._file.seek, self._first)
        while self._size and (part := await asyncio.to_thread(self._file.read, min(CHUNK, self._size))):
            self._size -= len(part)
            yield part

    def _close(self) -> None:
        self._file.close()
        if self._finish is not None:
            self._finish()
