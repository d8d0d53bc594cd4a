"""The process `http`: it answers requests on sockets that the supervisor has opened.

SIGTERM          no new connection; answers that are under way get `GRACE` seconds, and streams are told to end
a second one     ends at once. Nothing is lost: what was acknowledged is in the store
crash            the supervisor starts it again on the same sockets

Each connection is an open file. A process that has used up its files could neither read its store nor refuse anyone:
connections would wait without an answer. So it takes fewer than it may have open, and few at a time.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from perdure.runtime.runtime import Runtime
from perdure.server.application import make_application
from perdure.server.listeners import BACKLOG, Listeners, ListenOptions
from perdure.server.protocol import ServiceProtocol
from perdure.server.settings import ServerSettings

GRACE = 5  # seconds for requests under way
CONNECTIONS = 4096
RESERVED = 160  # open files that are kept for the store, artifacts and bundles, and for connections that are refused
AT_ONCE = 16  # connections that are accepted in one turn of the event loop; they are looked at two turns later


class HttpPlan(msgspec.Struct, frozen=True):
    """What the process is told when it is started: its settings, and the numbers of its sockets."""

    settings: ServerSettings
    tcp: tuple[int, ...]
    unix: int | None
    certificate: str | None = None
    key: str | None = None


def plan_of(settings: ServerSettings, options: ListenOptions, listeners: Listeners) -> HttpPlan:
    unix = None if listeners.unix is None else listeners.unix.fileno()
    tcp = tuple(one.fileno() for one in listeners.tcp)
    return HttpPlan(settings, tcp, unix, options.certificate, options.key)


class _Server(uvicorn.Server):
    """A server whose process handles the signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(BACKLOG)  # for asyncio, how many it accepts at once is also how many may wait


def raise_file_limit() -> int:
    """Allow this process as many open files as the system does: each stream is one, and the usual limit is 1024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def most_connections(files: int) -> int:
    """How many connections a process may have that may have so many files open."""
    return max(1, min(CONNECTIONS, files - min(RESERVED, files // 2)))


async def serve(runtime: Runtime, plan: HttpPlan, extra_routes: Sequence[BaseRoute] = ()) -> None:
    """Answer requests until SIGTERM. `extra_routes` come after those of the operations."""
    most = most_connections(raise_file_limit())
    app = make_application(runtime, plan.settings, extra_routes)
    servers = [(_server(app, plan, most, tls=True), [_socket(one) for one in plan.tcp])]
    if plan.unix is not None:
        servers.append((_server(app, plan, most, tls=False), [_socket(plan.unix)]))
    for one, _ in servers:
        one.server_state = servers[0][0].server_state  # the connections of both are counted together

    def stop() -> None:
        app.state.stopping.set()
        for one, _ in servers:
            one.force_exit = one.should_exit
            one.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await asyncio.gather(*(one.serve(sockets=sockets) for one, sockets in servers))


def _server(app: Starlette, plan: HttpPlan, most: int, *, tls: bool) -> uvicorn.Server:
    secure: dict[str, Any] = {}
    if tls and plan.certificate is not None:
        secure = {"ssl_certfile": plan.certificate, "ssl_keyfile": plan.key}
    config = uvicorn.Config(
        app, http=ServiceProtocol, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
        proxy_headers=False, root_path=plan.settings.root_path, backlog=AT_ONCE, timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE, limit_concurrency=most, **secure,
    )  # fmt: skip
    return _Server(config)


def _socket(number: int) -> socket.socket:
    made = socket.socket(fileno=number)
    made.setblocking(False)
    made.set_inheritable(False)
    return made
