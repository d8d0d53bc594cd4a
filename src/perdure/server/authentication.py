"""Who asks: authentication of every request.

    Authorization: Bearer TOKEN    a token of a principal
    a Unix socket                  the user id of the peer, as the kernel gives it, unless a proxy stands in between

A token that is wrong, expired or revoked is refused even where none is needed. `request.state.caller` is the caller, or
None; every path under `/v1/` needs one. What the request does is recorded under the caller's identity. Cookies never
count here. Then the request is counted (`requests.rates`).

Operations authenticate in the transaction in which they authorize and read (`routes`): what a request shows is of one
snapshot with the rights of its caller. Every other route is called when its caller is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.domain.caller import Caller
from perdure.domain.identity import Identity, acting
from perdure.errors import NotAuthenticated, PerdureError
from perdure.runtime.runtime import Runtime
from perdure.server.observability import health
from perdure.server.problem import on_error
from perdure.server.requests.credentials import Credentials
from perdure.server.requests.rates import CallerRates
from perdure.server.settings import ServerSettings
from perdure.store.move import StoreTransaction
from perdure.store.moves import token

T = TypeVar("T")
PROTECTED = "/v1/"
NOTED = 60.0  # seconds after which the use of a token is noted again
REMEMBERED = 10_000  # tokens
INVALID = "This token is not valid: it is wrong, expired or revoked."
CHECK = (
    "Check the token that is sent, on the command line PERDURE_TOKEN. An owner lists tokens with `perdure token`, "
    "and makes one with `perdure token create NAME --scope '*'`."
)


class Authentication:
    """Finds the callers of one process, and counts what they ask."""

    def __init__(self, runtime: Runtime, settings: ServerSettings, rates: CallerRates) -> None:
        self._store = runtime.store
        self._settings = settings
        self._rates = rates
        self._noted: dict[str, float] = {}  # when the use of a token was noted
        self._notes: set[asyncio.Task[None]] = set()

    async def admit(
        self, request: Request, read: Callable[[StoreTransaction, Caller], T],
        ahead: Callable[[StoreTransaction], None] = lambda _: None,
    ) -> T:  # fmt: skip
        """Find the caller, and read what it asks for in the same transaction; without a caller nothing is read.

        `ahead` says which queries that takes, to make them in the round trip of the authentication.
        """
        given = Credentials(request, self._settings)
        self._rates.check(given)
        caller: Caller | None = None

        def enter(tx: StoreTransaction) -> T:
            nonlocal caller
            ahead(tx)
            caller = self._find(tx, given)  # anew if the read is repeated
            if caller is None:
                raise NotAuthenticated("This needs a token.")
            tx.identity = caller.identity
            return read(tx, caller)

        try:
            given.check()
            answer = await self._store.read(enter)
        except PerdureError as error:
            if caller is not None:
                self._admitted(request, given, caller)
            elif isinstance(error, NotAuthenticated):
                self._rates.count_failure(given)
            raise
        assert caller is not None
        self._admitted(request, given, caller)
        return answer

    async def caller(self, request: Request) -> Caller | None:
        """Who asks, where no caller is needed; refuses wrong credentials."""
        given = Credentials(request, self._settings)
        if given.authorization:
            return await self.admit(request, lambda _, caller: caller)
        found = None if given.peer is None else await self._store.read(self._find, given)
        if found is not None:
            self._admitted(request, given, found)
        return found

    def _find(self, tx: StoreTransaction, given: Credentials) -> Caller | None:
        if given.authorization:
            found = token.authenticate(tx, given.bearer)
            if found is None:
                raise NotAuthenticated(INVALID, hint=CHECK)
            return found
        if given.peer is None:
            return None
        return token.peer(tx, f"os:{given.peer}", own=f"os:{self._settings.own_uid}")

    def _admitted(self, request: Request, given: Credentials, caller: Caller) -> None:
        request.scope["state"]["caller"] = caller
        if caller.token_id is not None:
            self._note_use(caller.token_id)
        self._rates.count(given, caller)

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
                await self._store.write(token.note_use([id]))

        task = asyncio.create_task(note())
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)


class AuthenticatedPages:
    """Authenticates the requests that are not for operations."""

    def __init__(self, app: ASGIApp, authentication: Authentication) -> None:
        self._app = app
        self._authentication = authentication

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            inner = scope["path"].removeprefix(scope.get("root_path", ""))  # pages of health need no store
            caller = None if inner in health.PATHS else await self._authentication.caller(request)
        except PerdureError as error:
            await (await on_error(request, error))(scope, receive, send)
            return
        if caller is None:
            await self._app(scope, receive, send)
            return
        with acting(Identity.parse(caller.identity)):
            await self._app(scope, receive, send)
