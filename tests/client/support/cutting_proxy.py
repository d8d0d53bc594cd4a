"""A proxy between a client and a service that loses connections: before a request, or instead of its answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

ENTRY = b"PK\3\4"  # how a file in a bundle begins


class CuttingProxy:
    """Forwards bytes. `lose_answers` more answers to a POST, and every one of `lose_every`, are dropped with
    their connections, after the service has carried the request out; `cut_streams()` cuts what is open."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._writers: set[asyncio.StreamWriter] = set()
        self.lose_answers = self.lose_every = 0
        self.answers = self.lost = 0  # to a POST that came from the service, and those that were dropped
        self.spoil_bundles = 0  # more bundles of which a byte is changed on the way
        self.posts = 0  # that have come
        self.keys: list[str] = []  # the Idempotency-Key of each POST
        self.address = ""

    def is_used(self) -> bool:
        """Whether a connection is open; from any thread."""
        return any(not one.is_closing() for one in list(self._writers))

    def cut_streams(self) -> int:
        """Cut every open connection; returns how many."""
        cut = [one for one in self._writers if not one.is_closing()]
        for one in cut:
            one.transport.abort()
        return len(cut)

    def _loses(self) -> bool:
        """Whether the answer that has come is dropped."""
        self.answers += 1
        is_lost = self.lose_answers > 0 or (self.lose_every > 0 and self.answers % self.lose_every == 0)
        self.lose_answers -= self.lose_answers > 0
        self.lost += is_lost
        return is_lost

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(self._host, self._port)
        self._writers |= {writer, there_writer}
        posts = 0

        async def requests() -> None:
            nonlocal posts
            while data := await reader.read(65536):
                if data.startswith(b"POST "):
                    posts += 1
                    self.posts += 1
                    self.keys += re.findall(r"(?i)idempotency-key: (\S+)", data.decode("latin-1"))
                there_writer.write(data)
            there_writer.close()

        async def answers() -> None:
            nonlocal posts
            while data := await there_reader.read(65536):
                if posts and self._loses():
                    writer.transport.abort()
                    return
                posts = 0
                if self.spoil_bundles and ENTRY in data:
                    self.spoil_bundles -= 1
                    data = data.replace(ENTRY, ENTRY[:-1] + b"\5", 1)
                writer.write(data)
            writer.close()

        both = [asyncio.ensure_future(requests()), asyncio.ensure_future(answers())]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for one in (writer, there_writer):
            one.transport.abort()
        await asyncio.gather(*both, return_exceptions=True)
        for one in (writer, there_writer):
            with suppress(OSError):
                await one.wait_closed()
        self._writers -= {writer, there_writer}


@asynccontextmanager
async def cutting_proxy(address: str) -> AsyncIterator[CuttingProxy]:
    """A proxy in front of a service at `http://host:port`."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    made = CuttingProxy(host, int(port))
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        made.cut_streams()
        await server.wait_closed()
