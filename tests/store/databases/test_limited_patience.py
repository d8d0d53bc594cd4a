"""A process that ends does not wait long for a database that is away."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import CommitUnknown, StoreUnavailable
from perdure.runtime.runtime import Runtime
from perdure.runtime.workers.worker import Worker
from perdure.store.databases.postgres.database import PostgreSQL
from perdure.store.moves import meta, queue
from perdure.store.store import Store
from perdure.testing.postgres import PostgresServer
from perdure.testing.proxy import wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
ENDLESS = 1e9  # seconds of patience
LIMIT = 120.0  # of a test for what would otherwise last forever


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as made:
        yield made
        signal_all(made, signal.SIGCONT)


@pytest.fixture
def patient(server: PostgresServer) -> Iterator[Store]:
    """A store that waits for its server as long as it is let."""
    url = server.create_database()
    store = Store(PostgreSQL(url, patience=ENDLESS, stall_limit=ENDLESS), url)
    yield store
    store.limit_patience(0)
    store.close()


def signal_all(server: PostgresServer, number: signal.Signals) -> None:
    """Send a signal to the server and to its processes."""
    if server._process is not None:
        children = Path(f"/proc/{server._process.pid}/task/{server._process.pid}/children")
        for pid in (server._process.pid, *map(int, children.read_text().split())):
            os.kill(pid, number)


def remove(server: PostgresServer, how: str) -> None:
    if how == "killed":
        server.kill()
    else:
        signal_all(server, signal.SIGSTOP)


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_reads_and_writes_end_when_the_patience_is_limited(how: str, server: PostgresServer, patient: Store) -> None:
    assert patient.read_now(meta.get, "store_id")
    patient.write_now(queue.set_limits("q", "ada", concurrency=1))
    remove(server, how)
    with ThreadPoolExecutor(2) as threads:
        asked: list[Future[Any]] = [
            threads.submit(patient.read_now, meta.get, "store_id"),
            threads.submit(patient.write_now, queue.set_limits("other", "ada", concurrency=1)),
        ]
        patient.limit_patience(0.1)
        errors = [one.exception(LIMIT) for one in asked]
    assert [type(one) for one in errors] in ([StoreUnavailable, StoreUnavailable], [StoreUnavailable, CommitUnknown])


async def test_a_drained_worker_ends_without_its_database(server: PostgresServer, patient: Store) -> None:
    runtime = Runtime(patient)
    worker = Worker(runtime)
    running = asyncio.ensure_future(worker.run())
    await asyncio.to_thread(wait_until, lambda: worker._looks > 1, "it has looked for work")
    assert runtime.worker.name
    server.kill()
    worker.drain()
    patient.limit_patience(0.1)
    await asyncio.wait_for(running, LIMIT)
    await asyncio.wait_for(runtime.__aexit__(None, None, None), LIMIT)  # its row stays, and that is no error
