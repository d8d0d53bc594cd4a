"""What a request presents to be authenticated, and where it comes from.

The address is that of the connection; behind a proxy, the last one of `X-Forwarded-For`, which the proxy has added. An
IPv6 network of 64 bits is one address, because one client has all of it.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from starlette.requests import Request

from perdure.errors import NotAuthenticated
from perdure.ids import digest
from perdure.server.requests.headers import headers
from perdure.server.settings import ServerSettings


class Credentials:
    """The credentials of one request."""

    __slots__ = ("_request", "_settings", "authorization", "key", "peer")

    def __init__(self, request: Request, settings: ServerSettings) -> None:
        self._request = request
        self._settings = settings
        peer = request.scope["state"].get("peer_uid")
        self.peer: int | None = None if settings.behind_proxy else peer
        self.authorization = headers(request.scope, b"authorization")  # all headers of this name
        self.key = digest(f"{peer} {' '.join(self.authorization)}")  # names them in this process

    @property
    def address(self) -> str:
        return address_of(self._request, behind_proxy=self._settings.behind_proxy)

    def check(self) -> None:
        """Refuse none at all, and what is no single bearer token."""
        if not self.authorization and self.peer is None:
            raise NotAuthenticated("This needs a token.")
        if self.authorization and (len(self.authorization) != 1 or self._parts[0].lower() != "bearer"):
            raise NotAuthenticated("The header Authorization is not one bearer token.")

    @property
    def bearer(self) -> str:
        """The text of the token."""
        return self._parts[2].strip()

    @property
    def _parts(self) -> tuple[str, str, str]:
        return self.authorization[0].partition(" ")


def address_of(request: Request, *, behind_proxy: bool) -> str:
    """The address of the client of a request; empty on a Unix socket."""
    given = [request.client.host] if request.client is not None else []
    if behind_proxy and (passed := request.headers.getlist("x-forwarded-for")):
        given.append(passed[-1].rpartition(",")[2].strip())
    return next((found for one in reversed(given) if (found := _network(one)) is not None), "")


@lru_cache(maxsize=10_000)
def _network(text: str) -> str | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return text if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))
