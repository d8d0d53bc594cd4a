"""One connection: the limits of its requests, and who is at the other end.

peer     on a Unix socket, requests carry the user id of the peer as `state["peer_uid"]`, as the kernel gives it: a
         client cannot choose it. A command of an agent in a sandbox has no user id here: Landlock does not prevent a
         connection to the socket, and the command would be the user that it runs as, and could approve its own calls
abort    `state["abort"]` ends the connection without waiting for a client that takes nothing
slow     a request whose head has not come within `HEAD_TIME` closes the connection, so that slow clients do not
         use up the connections. The body has its own limits (`routes`)
large    so does a head of more than `LARGEST_HEAD` bytes
many     connections beyond the most that there may be are answered with 503, up to `REFUSED` of them; further ones are
         closed at once, because each is an open file until its head has come. Those that came first are not affected
"""

from __future__ import annotations

import asyncio
import socket
import struct
from pathlib import Path

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
HEAD_TIME = 10.0  # seconds
LARGEST_HEAD = 64 << 10  # bytes
REFUSED = 16  # connections beyond the most that may have an answer


class ServiceProtocol(HttpToolsProtocol):
    """HTTP with these limits."""

    _head_due: asyncio.TimerHandle | None = None
    _head_size = 0
    _in_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.access_log = False  # it would log addresses with their queries; `requests.log` logs requests
        self.app_state = {**self.app_state, "peer_uid": peer_uid(transport), "abort": transport.abort}
        super().connection_made(transport)
        most, self.limit_concurrency = self.limit_concurrency, None
        if most is not None and len(self.connections) > most:
            self.limit_concurrency = 0  # uvicorn answers with 503
            if len(self.connections) > most + REFUSED:
                transport.abort()
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_size += len(data)
        super().data_received(data)
        if self._in_head and self._head_size:
            if self._head_size > LARGEST_HEAD:
                self.transport.close()
            elif self._head_due is None:  # most heads come whole, and need no timer
                self._expect_head()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._forget_head()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._head_size = True, 0

    def _expect_head(self) -> None:
        self._head_due = self.loop.call_later(HEAD_TIME, self.transport.close)

    def _forget_head(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None


def peer_uid(transport: asyncio.BaseTransport) -> int | None:
    """The user id of the process at the other end; None if it is not a Unix socket."""
    found = transport.get_extra_info("socket")
    if found is None or found.family != socket.AF_UNIX:
        return None
    pid, uid, _ = _CREDENTIALS.unpack(found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return None if is_confined(int(pid)) else int(uid)


def is_confined(pid: int) -> bool:
    """Whether a process is more confined than this one, as the commands of agents are; one that is gone counts too.

    Such a process cannot shed it: it may gain no rights, and a filter of system calls cannot be removed.
    """
    own, peer = _confinement("self"), _confinement(str(pid))
    return peer is None or own is None or any(one > other for one, other in zip(peer, own, strict=True))


def _confinement(process: str) -> tuple[int, ...] | None:
    """Whether a process may gain no rights, and how many filters of system calls it has; None if it is not there."""
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    said = dict(line.split(":", 1) for line in lines if ":" in line)
    return tuple(int(said.get(name, "0")) for name in ("NoNewPrivs", "Seccomp", "Seccomp_filters"))
