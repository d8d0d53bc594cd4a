"""Clients of a service for benchmarks and tests, as cheap as they can be: they share two cores with the service."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from typing import NamedTuple

from perdure.clock import SystemClock

NUMBER = re.compile(rb"^id: (\d+)$", re.MULTILINE)
LENGTH = b"content-length: "
LAST_CHUNK = b"0\r\n\r\n"
AT = re.compile(rb'"at":(\d+)')


class Answer(NamedTuple):
    """An answer, and when it came, in microseconds after the request was sent."""

    status: int
    body: bytes
    first_byte: int  # of its body
    last_byte: int


class KeptConnection:
    """One connection on which one request follows another."""

    def __init__(self, host: str, port: int, *headers: str) -> None:
        self._socket = socket.create_connection((host, port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = "".join(f"{one}\r\n" for one in (f"Host: {host}:{port}", *headers))
        self._boot = SystemClock().boot

    def close(self) -> None:
        self._socket.close()

    def request(self, method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
        """A request as it is sent."""
        more = "".join(f"{one}\r\n" for one in headers)
        length = f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\n" if body else ""
        return f"{method} {path} HTTP/1.1\r\n{self._head}{more}{length}\r\n".encode() + body

    def ask(self, method: str, path: str, body: bytes = b"", *headers: str) -> Answer:
        return self.send(self.request(method, path, body, *headers))

    def send(self, request: bytes) -> Answer:
        """Send a request and read its whole answer."""
        begun = self._boot()
        self._socket.sendall(request)
        data = self._socket.recv(1 << 16)
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._receive()
        at = data.find(LENGTH, 0, end)
        size = int(data[at + len(LENGTH) : data.index(b"\r", at)]) if at >= 0 else None
        parts = [data[end + 4 :]]
        if not parts[0] and size != 0:
            parts.append(self._receive())
        first, got = self._boot() - begun, sum(map(len, parts))
        while got < size if size is not None else not parts[-1].endswith(LAST_CHUNK):
            parts.append(self._receive())
            got += len(parts[-1])
        last, body = self._boot() - begun, b"".join(parts)
        return Answer(int(data[9:12]), body if size is not None else b"".join(_chunks(body)), first, last)

    def _receive(self) -> bytes:
        part = self._socket.recv(1 << 16)
        assert part, "the service closed the connection"
        return part


def _chunks(body: bytes) -> Iterator[bytes]:
    """The content of a body in chunks. Its end is taken for one only where the last part that came ends."""
    while body != LAST_CHUNK:
        size, _, rest = body.partition(b"\r\n")
        end = int(size, 16)
        yield rest[:end]
        body = rest[end + 2 :]


class Subscriber:
    """Reads the event stream of a session, and keeps the number of each event in the order in which they came."""

    def __init__(self, host: str, port: int, token: str, session: str, after: int) -> None:
        self._host, self._port, self._token = host, port, token
        self.session, self.numbers, self.after = session, list[int](), after
        self.began = asyncio.Event()  # the first event came
        self.delays: list[int] = []  # microseconds from the time of an event to its arrival
        self._now = SystemClock().now

    @property
    def last(self) -> int:
        return self.numbers[-1] if self.numbers else self.after

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, and send the head of the request without waiting for other tasks.

        The service gives each head ten seconds, and the event loop of this process may serve a thousand subscribers.
        """
        there = socket.create_connection((self._host, self._port), timeout=60)
        there.sendall(
            f"GET /v1/sessions/{self.session}/events HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
            f"Authorization: Bearer {self._token}\r\nAccept: text/event-stream\r\n"
            f"Last-Event-ID: {self.last}\r\n\r\n".encode()
        )
        return await asyncio.open_connection(sock=there, limit=1 << 22)

    async def read(self, through: int) -> None:
        """Follow the session up to an event, from the last one that came."""
        reader, writer = await self.open()
        before = b""
        try:
            while self.last < through:
                try:
                    message = await reader.readuntil(b"\n\n")
                except asyncio.IncompleteReadError as ended:
                    raise AssertionError(f"the service ended the stream: {before!r} {ended.partial!r}") from None
                before, arrived = message, self._now()
                for found in NUMBER.findall(message):
                    self.numbers.append(int(found))
                    self.began.set()
                    told = AT.search(message)
                    self.delays.append(arrived - int(told[1]) if told else 0)
        finally:
            writer.close()

    def problems(self, through: int) -> list[str]:
        """Events that are missing, repeated or out of order."""
        if self.numbers == list(range(self.after + 1, through + 1)):
            return []
        return [f"after {self.after}, a subscriber of {self.session} got {len(self.numbers)}: {self.numbers[:50]}"]
