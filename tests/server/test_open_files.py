"""A service with more clients than it may have open files: it refuses some of them, and serves the others."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.service_clients import Subscriber
from benchmarks.service_process import HttpService, credentials, http_service
from benchmarks.worker_app import bench_one_step
from perdure.runtime.runtime import open as open_runtime
from perdure.server.http_process import CONNECTIONS, RESERVED, most_connections

FILES, CLIENTS = 256, 400
UNANSWERED = "closed"


@pytest.mark.parametrize(
    ("files", "most"), [(1024, 1024 - RESERVED), (1 << 20, CONNECTIONS), (FILES, FILES // 2), (100, 50), (1, 1)]
)
def test_connections_leave_files_for_the_store(files: int, most: int) -> None:
    assert most_connections(files) == most


@pytest.mark.slow
@pytest.mark.databases("sqlite", "postgres")
async def test_clients_beyond_the_open_files_are_refused_and_no_other(target: str, folder: Path) -> None:
    async with open_runtime(target) as runtime:
        followed = await runtime.start(bench_one_step.bind("x"), id="followed")
        secrets = await credentials(runtime)
        with http_service(runtime, *secrets, files=FILES, log=folder / "log") as service:
            clients = [StreamClient(service, followed.uid, followed.cursor) for _ in range(CLIENTS)]
            await asyncio.gather(*(one.connect() for one in clients))
            answers, most = Counter([one.status for one in clients]), most_connections(FILES)
            assert (answers["200"], answers.keys() <= {"200", "503", UNANSWERED}) == (most, True), answers
            await runtime.rename("followed", "another title")
            admitted = [one for one in clients if one.status == "200"]
            assert [await one.next_number() for one in admitted] == [followed.cursor + 1] * most
            for one in clients:
                one.close()
            late = StreamClient(service, followed.uid, followed.cursor)
            await late.connect()
            while late.status != "200":  # the service learns that the others have left
                late.close()
                await late.connect()
            assert await late.next_number() == followed.cursor + 1
            late.close()
    assert "Too many open files" not in (folder / "log").read_text()


class StreamClient(Subscriber):
    """Asks for the stream of a session, and keeps the status of the answer."""

    status = ""
    _writer: asyncio.StreamWriter | None = None

    def __init__(self, service: HttpService, session: str, after: int) -> None:
        super().__init__(service.host, service.port, service.token, session, after)

    async def connect(self) -> None:
        try:
            self._reader, self._writer = await self.open()
            self.status = (await self._reader.readline()).decode().split(" ", 2)[1]
        except (ConnectionError, IndexError):
            self.status = UNANSWERED

    async def next_number(self) -> int:
        while not (line := await self._reader.readline()).startswith(b"id: "):
            assert line, "the stream ended"
        return int(line.removeprefix(b"id: "))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
