"""Who asks: authentication of every request, before anything else sees it.

    Authorization: Bearer TOKEN    a token of a principal
    a Unix socket                  the user id of the peer, as the kernel gives it, unless a proxy stands in between

A token that is wrong, expired or revoked is refused even where none is needed. `request.state.caller` is the caller, or
None; every route under `/v1/` needs one. What the request does is recorded under the caller's identity. Cookies never
count here. Then the request is counted (`requests.rates`).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.domain.caller import Caller
from perdure.domain.identity import Identity, acting
from perdure.errors import NotAuthenticated, PerdureError
from perdure.runtime.runtime import Runtime
from perdure.server.observability import health
from perdure.server.operation import encoded
from perdure.server.problem import on_error
from perdure.server.requests.rates import CallerRates
from perdure.server.settings import ServerSettings
from perdure.store.moves import token

PROTECTED = "/v1/"
NOTED = 60.0  # seconds after which the use of a token is noted again
REMEMBERED = 10_000  # tokens
INVALID = "This token is not valid: it is wrong, expired or revoked."
CHECK = (
    "Check the token that is sent, on the command line PERDURE_TOKEN. An owner lists tokens with `perdure token`, "
    "and makes one with `perdure token create NAME --scope '*'`."
)


class Authentication:
    """Authenticates each request."""

    def __init__(self, app: ASGIApp, runtime: Runtime, settings: ServerSettings, rates: CallerRates) -> None:
        self._app = app
        self._runtime = runtime
        self._settings = settings
        self._rates = rates
        self._noted: dict[str, float] = {}  # when the use of a token was noted
        self._notes: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope["state"]
        request = Request(scope, receive)
        try:
            path = scope["path"] = encoded(
                scope.get("raw_path", b"").partition(b"?")[0].decode("latin-1") or scope["path"]
            )
            inner = path.removeprefix(scope.get("root_path", ""))
            caller = None if inner in health.PATHS else await self._admit(request, inner)  # they need no store
            state["caller"] = caller
        except PerdureError as error:
            await (await on_error(request, error))(scope, receive, send)
            return
        if caller is None:
            await self._app(scope, receive, send)
            return
        with acting(Identity.parse(caller.identity)):
            await self._app(scope, receive, send)

    async def _admit(self, request: Request, path: str) -> Caller | None:
        """Who asks, within the rates; refuses wrong credentials, and none where they are needed."""
        if path.startswith(PROTECTED) or "authorization" in request.headers:
            self._rates.check_address(request)
        try:
            found = await self._caller(request)
            if found is None and path.startswith(PROTECTED):
                raise NotAuthenticated("This needs a token.")
        except NotAuthenticated:
            self._rates.count_failure(request)
            raise
        if found is not None:
            self._rates.count(request, found)
        return found

    async def _caller(self, request: Request) -> Caller | None:
        given = request.headers.getlist("authorization")
        if given:
            scheme, _, text = given[0].partition(" ")
            if len(given) != 1 or scheme.lower() != "bearer":
                raise NotAuthenticated("The header Authorization is not one bearer token.")
            found = await self._runtime.store.read(token.authenticate, text.strip())
            if found is None:
                raise NotAuthenticated(INVALID, hint=CHECK)
            if found.token_id is not None:
                self._note_use(found.token_id)
            return found
        peer = request.scope["state"].get("peer_uid")
        if peer is None or self._settings.behind_proxy:
            return None
        store = self._runtime.store
        return await store.read(token.peer, f"os:{peer}", own=f"os:{self._settings.own_uid}")

    def _note_use(self, id: str) -> None:
        """Note that a token was used, once in a while and beside the request, which does not wait for it."""
        now = asyncio.get_running_loop().time()
        if now - self._noted.get(id, -NOTED) < NOTED:
            return
        if len(self._noted) > REMEMBERED:
            self._noted.clear()
        self._noted[id] = now

        async def note() -> None:
            with suppress(PerdureError):
                await self._runtime.store.write(token.note_use([id]))

        task = asyncio.create_task(note())
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)
