"""An answer that is JSON, and complete when it is made."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class JsonAnswer(Response):
    """The same as a response of starlette, without what only other answers need."""

    def __init__(self, content: bytes, status: int, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.body, self.status_code, self.background = content, status, None
        self.raw_headers = [
            (b"content-length", b"%d" % len(content)), (b"content-type", b"application/json"), *headers,
        ]  # fmt: skip

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})
