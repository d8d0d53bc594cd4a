"""What every request must pass before anyone looks at who asks.

host      it names this service: a page that lets its own name point here (DNS rebinding) is refused, also on a Unix
          socket, which may be forwarded to a port; the peer would be the person who forwards it
origin    a page of another site may not use the API, unless it is named; only named ones get CORS headers
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.errors import ConfigError, NotAllowed, PerdureError
from perdure.server.problem import on_error
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        named = origin if origin is not None and origin in self._settings.origins else None

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and named is not None:
                given = [(b"access-control-allow-origin", named.encode()), (b"vary", b"Origin")]
                message["headers"] = [*message["headers"], *given, (b"access-control-expose-headers", EXPOSED)]
            await send(message)

        try:
            self._check(scope, headers, origin, named)
        except PerdureError as error:
            await (await on_error(Request(scope), error))(scope, receive, answer)
            return
        if scope["method"] == "OPTIONS" and named is not None:
            await Response(status_code=204, headers=CORS)(scope, receive, answer)
            return
        await self._app(scope, receive, answer)

    def _check(self, scope: Scope, headers: Headers, origin: str | None, named: str | None) -> None:
        hosts = headers.getlist("host")
        if len(hosts) > 1:
            raise ConfigError("The request names several hosts.", status=400)
        host = hosts[0] if hosts else ""
        if not self._settings.behind_proxy and not is_own_name(host, self._settings):
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
