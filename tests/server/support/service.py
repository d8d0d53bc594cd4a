"""A service over an open store, on a port of this machine, in a thread of this process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import httpx
import uvicorn
from starlette.types import ASGIApp

from perdure.console.application import console_routes
from perdure.domain.identity import Identity, acting
from perdure.domain.token import NewToken
from perdure.ids import new_uid
from perdure.runtime.runtime import Runtime
from perdure.server.application import make_application
from perdure.server.protocol import ServiceProtocol
from perdure.server.settings import ServerSettings
from perdure.store.moves import principal
from perdure.store.store import Store

T = TypeVar("T")
OWNER = "olga"
PATIENCE = 300.0


class _Server(uvicorn.Server):
    def install_signal_handlers(self) -> None:
        """The signals of the test belong to the test."""


class Service:
    """Leave it with `close`. `olga` is the owner; others are added with `client`. With `unix`, it listens there."""

    def __init__(
        self, store: Store, *, is_first: bool = True, unix: Path | None = None, console: bool = False,
        around: Callable[[ASGIApp], ASGIApp] = lambda app: app, **settings: Any,
    ) -> None:  # fmt: skip
        self.store = store
        self._folder = TemporaryDirectory(prefix="perdure-test-")
        artifacts = self._folder.name if store.folder is None else None
        self.runtime = Runtime(store, artifacts=artifacts)
        served, made = Runtime(store, artifacts=artifacts), ServerSettings(**settings)
        self._runtimes = (self.runtime, served)
        self.app = make_application(served, made, console_routes(served, made) if console else ())
        self._unix = unix
        if unix is None:
            self._socket = socket.create_server(("127.0.0.1", 0))
            self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        else:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind(str(unix))
            self._socket.listen()
            self.address = "http://perdure"
        config = uvicorn.Config(
            around(self.app), http=ServiceProtocol, ws="none", root_path=made.root_path, lifespan="off",
            log_config=None, access_log=False, server_header=False, proxy_headers=False, timeout_graceful_shutdown=60,
        )  # fmt: skip
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._clients: list[httpx.Client] = []
        if not is_first:
            return
        with acting(Identity("token", OWNER)):
            store.write_now(principal.put(new_uid(), OWNER, by=OWNER, roles=["owner"], logins=[f"token:{OWNER}"]))

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve(sockets=[self._socket])

    def stop(self) -> None:
        """Begin to stop, as the process does at SIGTERM."""
        with suppress(RuntimeError):  # it has stopped
            self._loop.call_soon_threadsafe(self.app.state.stopping.set)
        self._server.should_exit = True

    def token(self, name: str, *roles: str, scopes: tuple[str, ...] = ("*",), expires: str = "never") -> NewToken:
        """A token of a principal, which is added if it is not there."""
        with acting(Identity("token", OWNER)):
            if all(one.name != name for one in self.store.read_now(principal.listing)):
                self.store.write_now(principal.put(new_uid(), name, by=OWNER, roles=list(roles), logins=[]))
            return self.wait(self.runtime.create_token(name, scopes=scopes, expires=expires, by=OWNER))

    def client(self, name: str, *roles: str, scopes: tuple[str, ...] = ("*",)) -> httpx.Client:
        """A client with a token of its own."""
        return self.with_token(self.token(name, *roles, scopes=scopes).token)

    def with_token(self, text: str | None) -> httpx.Client:
        headers = {} if text is None else {"Authorization": f"Bearer {text}"}
        way = None if self._unix is None else httpx.HTTPTransport(uds=str(self._unix))
        made = httpx.Client(base_url=self.address, headers=headers, timeout=PATIENCE, trust_env=False, transport=way)
        self._clients.append(made)
        return made

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine here, outside the service."""
        return asyncio.run(work)

    def run(self, id: str) -> str:
        """Run a session here until it finishes or waits; returns its status."""
        return self.wait(self.runtime.run(id)).status

    def close(self) -> None:
        for one in self._clients:
            one.close()
        self.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        for each in self._runtimes:
            each.leave()
        self._folder.cleanup()
