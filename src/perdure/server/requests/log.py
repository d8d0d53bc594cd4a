"""Names each request, and logs one line when its answer is sent: never its path, query, body or credentials.

Every answer carries the id of its request. A client may choose it, but not the text of a token.
"""

from __future__ import annotations

import asyncio
import logging
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.domain.caller import Caller
from perdure.ids import new_uid
from perdure.server.requests.headers import header

logger = logging.getLogger("perdure.server")
_REQUEST_ID = re.compile(r"(?!prd_)[A-Za-z0-9._-]{1,64}")
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
NONE = "-"  # no operation, no principal, or no answer


class RequestLog:
    """Around everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state, loop = scope.setdefault("state", {}), asyncio.get_running_loop()
        began = loop.time()
        given = header(scope, b"x-request-id") or ""
        state["request_id"] = id = given if _REQUEST_ID.fullmatch(given) else new_uid()
        state["caller"] = state["operation"] = state["status"] = None
        headers = [*HEADERS, (b"x-request-id", id.encode())]

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                state["status"], given = message["status"], message["headers"]
                present = {name for name, _ in given}
                message["headers"] = [*given, *(one for one in headers if one[0] not in present)]
            await send(message)

        try:
            await self._app(scope, receive, answer)
        finally:
            taken, status = loop.time() - began, NONE if state["status"] is None else str(state["status"])
            scope["app"].state.request_metrics.add(state["operation"] or NONE, status, taken)
            if logger.isEnabledFor(logging.INFO):
                caller: Caller | None = state["caller"]
                who = NONE if caller is None else caller.name
                logger.info(
                    "Request %s: %s %s, %s, %d ms, %s.",
                    id, scope["method"], state["operation"] or NONE, status, round(taken * 1000), who,
                    extra={"request_id": id},
                )  # fmt: skip
