"""What every request must pass before anyone looks at who asks.

host      it names this service: a page that lets its own name point here (DNS rebinding) is refused, also on a Unix
          socket, which may be forwarded to a port; the peer would be the person who forwards it
origin    a page of another site may not use the API, unless it is named; only named ones get CORS headers
path      a segment of it may contain a slash that is encoded
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache, partial
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.errors import ConfigError, NotAllowed, PerdureError
from perdure.server.operation import encoded
from perdure.server.problem import on_error
from perdure.server.requests.headers import header, headers
from perdure.server.settings import ServerSettings

API = "/v1/"
NAMES = ("localhost", "perdure")  # of this machine, and of a Unix socket
CORS = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID, Range",
    "Access-Control-Max-Age": "600",
}
EXPOSED = b"ETag, Retry-After, X-Request-Id, Content-Range"


class Perimeter:
    """Refuses what does not belong here, before it is authenticated."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        self._is_own_name = lru_cache(maxsize=1000)(partial(is_own_name, settings=settings))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["path"] = encoded(scope.get("raw_path", b"").partition(b"?")[0].decode("latin-1") or scope["path"])
        origin = header(scope, b"origin")
        named = origin if origin is not None and origin in self._settings.origins else None
        answer = send if named is None else _with_origin(send, named)
        try:
            self._check(scope, origin, named)
        except PerdureError as error:
            await (await on_error(Request(scope), error))(scope, receive, answer)
            return
        if scope["method"] == "OPTIONS" and named is not None:
            await Response(status_code=204, headers=CORS)(scope, receive, answer)
            return
        await self._app(scope, receive, answer)

    def _check(self, scope: Scope, origin: str | None, named: str | None) -> None:
        hosts = headers(scope, b"host")
        if len(hosts) > 1:
            raise ConfigError("The request names several hosts.", status=400)
        host = hosts[0] if hosts else ""
        if not self._settings.behind_proxy and not self._is_own_name(host):
            raise ConfigError(
                f"{host!r:.100} is not a name of this service.", hint="`perdure serve --allow-host NAME` allows one.",
                status=421,
            )  # fmt: skip
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if not path.startswith(API):
            return
        if origin is not None and named is None and urlsplit(origin).netloc != host:
            raise NotAllowed(
                "This request comes from a page of another site.", hint="`perdure serve --allow-origin URL` allows one."
            )


def _with_origin(send: Send, origin: str) -> Send:
    """Answer a page of another site that was named."""

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = [(b"access-control-allow-origin", origin.encode()), (b"vary", b"Origin")]
            message["headers"] = [*message["headers"], *given, (b"access-control-expose-headers", EXPOSED)]
        await send(message)

    return answer


def is_own_name(given: str, settings: ServerSettings) -> bool:
    """Whether a `Host` is an address, or a name that this service is reached by."""
    try:
        host = (urlsplit(f"//{given}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if host in NAMES or host in settings.hosts:
        return True
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
