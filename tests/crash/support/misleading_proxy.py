"""A proxy in front of PostgreSQL that lets a statement be executed, and answers something else to the client.

What it answers is what a client really gets: from a pooler whose connection to the server was lost, and from a stream
of bytes that is out of step. The statement has been executed, and committed if it commits, before any of it is sent.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Self
from urllib.parse import urlsplit

from perdure.testing.proxy import loopback_listener

Answer = list[bytes]
PLAIN = "sslmode=disable&gssencmode=disable"  # this proxy cannot decline encryption
READY = b"Z\0\0\0\5I"


def report(severity: str, code: str, text: str) -> bytes:
    """An ErrorResponse."""
    fields = b"".join(
        f"{kind}{value}\0".encode() for kind, value in zip("SVCM", (severity, severity, code, text), strict=True)
    )
    return b"E" + (len(fields) + 5).to_bytes(4) + fields + b"\0"


KILLED = [report("FATAL", "57P01", "terminating connection due to administrator command")]
CRASHED = [report("FATAL", "08P01", "server conn crashed?")]


def _unreadable_row(answer: Answer) -> Answer:
    """The first row says that it has more fields than its description: libpq reports an error without a code."""
    at = next(place for place, message in enumerate(answer) if message[:1] == b"D")
    row = answer[at]
    return [*answer[:at], row[:5] + (int.from_bytes(row[5:7]) + 1).to_bytes(2) + row[7:], *answer[at + 1 :]]


def _completions(answer: Answer) -> list[int]:
    return [place for place, message in enumerate(answer) if message[:1] == b"C"]


def _one_short(answer: Answer) -> Answer:
    last = _completions(answer)[-1]
    return answer[:last] + answer[last + 1 :]


def _one_twice(answer: Answer) -> Answer:
    first = _completions(answer)[0]
    return answer[: first + 1] + answer[first:]


FAULTS: dict[str, Callable[[Answer], Answer]] = {  # without READY at its end, the connection is closed
    "the server's end, and the pooler's": lambda answer: KILLED + CRASHED,
    "an error of the pooler": lambda answer: [report("ERROR", "08P01", "server conn crashed?")],
    "fatal, and ready": lambda answer: [report("FATAL", "58000", "the server is gone"), READY],
    "an error of the pooler, and ready": lambda answer: [report("ERROR", "08006", "the server is gone"), READY],
    "an unreadable row": _unreadable_row,
    "one answer too few": _one_short,
    "one answer twice": _one_twice,
    "refused": lambda answer: [report("ERROR", "42501", "permission denied"), READY],
}


class MisleadingProxy:
    """Between clients and the server of a URL, inside `with`. Transparent until armed; what is armed fires in order."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.target = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self.fired = threading.Event()
        self.connections = 0
        self._url = url
        self._guard = threading.Lock()
        self._armed: deque[tuple[str, re.Pattern[bytes]]] = deque()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._listener = loopback_listener()
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._hang_up(self._listener, *self._sockets)
        for thread in self._threads:
            thread.join()
        for end in (self._listener, *self._sockets):
            end.close()

    @property
    def url(self) -> str:
        login, _, _ = urlsplit(self._url).netloc.rpartition("@")
        return urlsplit(self._url)._replace(netloc=f"{login}@127.0.0.1:{self.port}").geturl()

    def arm(self, fault: str, match: bytes, times: int = 1) -> None:
        """Mislead about the next requests with these whole words; `fired` is set with the last one that is armed."""
        words = re.compile(rb"(?<!\w)" + re.escape(match) + rb"(?!\w)", re.IGNORECASE)
        with self._guard:
            self.fired.clear()
            self._armed.extend([(fault, words)] * times)

    def heal(self) -> None:
        with self._guard:
            self._armed.clear()

    def _fault_of(self, request: bytes) -> Callable[[Answer], Answer] | None:
        with self._guard:
            if not self._armed or not self._armed[0][1].search(request):
                return None
            fault, _ = self._armed.popleft()
            if not self._armed:
                self.fired.set()
            return FAULTS[fault]

    def _start(self, work: Callable[..., None], *more: object) -> None:
        thread = threading.Thread(target=work, args=more, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self.target)
                self.connections += 1
                self._sockets += [client, server]
                faults: deque[Callable[[Answer], Answer] | None] = deque()
                self._start(self._requests, client, server, faults)
                self._start(self._answers, client, server, faults)

    def _requests(
        self, client: socket.socket, server: socket.socket, faults: deque[Callable[[Answer], Answer] | None]
    ) -> None:
        statements: dict[bytes, bytes] = {}
        with contextlib.suppress(OSError):
            head = client.recv(4, socket.MSG_WAITALL)
            server.sendall(head + client.recv(max(0, int.from_bytes(head) - 4), socket.MSG_WAITALL))
            request, executed = b"", b""
            for message in self._messages(client):
                kind, fields = message[:1], message[5:].split(b"\0", 2)
                if kind == b"P":
                    statements[fields[0]] = fields[1]
                elif kind in (b"B", b"Q"):
                    executed += statements.get(fields[1], b"") + b";" if kind == b"B" else fields[0]
                request += message
                if kind in (b"Q", b"S", b"p", b"X"):
                    if kind in (b"Q", b"S"):
                        faults.append(self._fault_of(executed))
                    server.sendall(request)
                    request, executed = b"", b""
        self._hang_up(client, server)

    def _answers(
        self, client: socket.socket, server: socket.socket, faults: deque[Callable[[Answer], Answer] | None]
    ) -> None:
        with contextlib.suppress(OSError):
            answer, logged_in = Answer(), False
            for message in self._messages(server):
                answer.append(message)
                if logged_in and message[:1] != b"Z":
                    continue
                fault = faults.popleft() if logged_in else None
                logged_in = logged_in or message[:1] == b"Z"
                sent = fault(answer) if fault is not None else answer
                client.sendall(b"".join(sent))
                if fault is not None and sent[-1][:1] != b"Z":
                    break
                answer = []
            else:
                client.sendall(b"".join(answer))
        self._hang_up(client, server)

    def _messages(self, end: socket.socket) -> Iterator[bytes]:
        while head := end.recv(5, socket.MSG_WAITALL):
            yield head + end.recv(int.from_bytes(head[1:]) - 4, socket.MSG_WAITALL)

    def _hang_up(self, *ends: socket.socket) -> None:
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
