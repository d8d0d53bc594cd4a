"""A browser without a screen: forms and pages over HTTP, in the process of the test."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from perdure.console.application import console_routes
from perdure.domain.token import token_id
from perdure.runtime.runtime import Runtime
from perdure.runtime.runtime import open as open_runtime
from perdure.server.application import make_application
from perdure.server.settings import ServerSettings
from perdure.testing import ManualClock

TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')


class Visit:
    """A browser without a screen, and the runtime behind the service."""

    def __init__(self, client: httpx.AsyncClient, runtime: Runtime, clock: ManualClock) -> None:
        self.client = client
        self.runtime = runtime
        self.clock = clock
        self.tokens: dict[str, str] = {}

    async def form_token(self, path: str = "/sign-in") -> str:
        found = TOKEN.search((await self.client.get(path)).text)
        assert found is not None
        return found[1]

    async def post(self, path: str, *, at: str = "/sign-in", headers: Any = None, **fields: str) -> httpx.Response:
        data = {"form_token": await self.form_token(at)} | fields
        return await self.client.post(path, data=data, headers=headers)

    async def sign_in(self, name: str) -> httpx.Response:
        return await self.post("/sign-in", token=self.tokens[name])

    def login(self, name: str) -> str:
        return f"token:{token_id(self.tokens[name])}"

    @property
    def jar(self) -> dict[str, str]:
        return dict(self.client.cookies)


def from_peer(app: Any, uid: int | None) -> Any:
    """The application behind a Unix socket, on which the kernel names the peer."""

    async def asked(scope: Any, receive: Any, send: Any) -> None:
        await app(scope | {"state": {"peer_uid": uid}}, receive, send)

    return app if uid is None else asked


@asynccontextmanager
async def visiting(
    target: str, clock: ManualClock, *, peer: int | None = None, is_known: bool = False, **settings: Any
) -> AsyncIterator[Visit]:
    """Visit the service; as a peer of its Unix socket, if a user id is given."""
    async with open_runtime(target, by="ada", clock=clock) as runtime:
        made = ServerSettings(**settings)
        app = make_application(runtime, made, console_routes(runtime, made))
        scheme = "https" if settings.get("behind_proxy") else "http"
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(from_peer(app, peer)), base_url=f"{scheme}://127.0.0.1:7180"
        ) as client:
            visit = Visit(client, runtime, clock)
            if not is_known:
                await runtime.add_principal("ada", roles=["owner"])
                await runtime.add_principal("grace", roles=["operator", "approver"])
            for name, scope in (("ada", "*"), ("grace", "queue:mine")):
                visit.tokens[name] = (await runtime.create_token(name, scopes=[scope])).token
            yield visit
