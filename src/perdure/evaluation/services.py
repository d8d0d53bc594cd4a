"""Servers that trials share: a sink, PostgreSQL, and those of peers; started on demand, ended with the evaluation.

They are infrastructure and not under test, except where a workload kills a server: then it starts its own.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.errors import ConfigError

if TYPE_CHECKING:
    from perdure.evaluation.peers import Peer
    from perdure.testing.postgres import PostgresServer
    from perdure.testing.sink import Sink

_stack: ExitStack | None = None
_lock = threading.RLock()
_sink: Sink | None = None
_postgres: PostgresServer | None = None
_peers: dict[str, Path] = {}


@contextmanager
def running() -> Iterator[None]:
    """Within this block servers are started on demand; afterwards they have ended."""
    global _stack, _sink, _postgres
    with ExitStack() as stack:
        _stack = stack
        try:
            yield
        finally:
            _stack = _sink = _postgres = None
            _peers.clear()


def sink() -> Sink:
    """The shared sink. Each trial uses a run of its own: `services.sink().run(name)`."""
    global _sink
    with _lock:
        if _sink is None:
            from perdure.testing.sink import Sink

            _sink = _needed().enter_context(Sink())
        return _sink


def postgres() -> PostgresServer:
    """The shared PostgreSQL server. Each trial creates a database of its own."""
    global _postgres
    with _lock:
        if _postgres is None:
            from perdure.testing.postgres import PostgresServer

            _postgres = _needed().enter_context(PostgresServer())
        return _postgres


def database(name: str | None = None) -> str:
    """The URL of a new, empty database on the shared server; without a name, one by chance."""
    return postgres().create_database(name)


def peer_server(peer: Peer) -> Path:
    """The folder of the running server of a peer."""
    with _lock:
        if peer.name not in _peers:
            folder = Path(_needed().enter_context(tempfile.TemporaryDirectory(prefix=f"perdure-{peer.name}-")))
            _needed().enter_context(peer.serving(folder))
            _peers[peer.name] = folder
        return _peers[peer.name]


def _needed() -> ExitStack:
    if _stack is None:
        raise ConfigError("A trial runs inside `services.running()`.")
    return _stack
