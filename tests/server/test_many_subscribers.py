"""Many subscribers of a service in a process of its own: each gets every event once and in order, on one connection
that the service does not end."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from benchmarks.service_clients import Subscriber
from benchmarks.service_process import credentials, http_service
from benchmarks.worker_app import bench_one_step
from perdure.runtime.runtime import Runtime
from perdure.runtime.runtime import open as open_runtime
from perdure.server.http_process import RESERVED, raise_file_limit
from tests.figures import record

pytestmark = [pytest.mark.slow, pytest.mark.databases("sqlite", "postgres")]
SIZES = [pytest.param(200, id="some"), pytest.param(1000, id="many", marks=pytest.mark.soak)]
FILES = 100  # that a process may have open, before it asks for more
FOLLOWED, EVENTS, MIDDLE = 3, 30, 15
PATIENCE = 480  # seconds; on two quiet cores the test takes two


@contextmanager
def few_files() -> Iterator[None]:
    """Processes that are started here may have few open files, until they raise the limit themselves."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(os.listdir("/proc/self/fd"))  # this process may have run many tests
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + FILES, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


@pytest.mark.parametrize("subscribers", SIZES)
async def test_each_subscriber_gets_every_event_once_and_in_order(target: str, subscribers: int) -> None:
    assert raise_file_limit() >= subscribers + 2 * RESERVED, f"raise `ulimit -Hn` for {subscribers} subscribers"
    async with open_runtime(target) as runtime:
        followed = [await runtime.start(bench_one_step.bind("x"), id=f"followed-{n}") for n in range(FOLLOWED)]
        first = followed[0].cursor
        secrets = await credentials(runtime)
        with ExitStack() as stack:
            with few_files():
                service = stack.enter_context(http_service(runtime, *secrets))
            readers = [
                Subscriber(service.host, service.port, service.token, followed[number % FOLLOWED].uid, first)
                for number in range(subscribers)
            ]
            async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as reading:
                for number, one in enumerate(readers):
                    reading.create_task(follow(one, first, number % 2 == 0))
                await asyncio.gather(*(write(runtime, one.uid, range(1)) for one in followed))
                await asyncio.gather(*(one.began.wait() for one in readers))
                await asyncio.gather(*(write(runtime, one.uid, range(1, EVENTS)) for one in followed))  # they come live
    wrong = [sentence for one in readers for sentence in one.problems(first + EVENTS)]
    record("subscribers of a service", ("subscribers", "events", "wrong"), (
        "PostgreSQL" if target.startswith("postgresql:") else "SQLite", subscribers, subscribers * EVENTS, len(wrong)
    ))  # fmt: skip
    assert wrong == []


async def follow(one: Subscriber, first: int, leaves: bool) -> None:
    """Read all events; one that leaves comes back with the number of the last one that it has."""
    if leaves:
        await one.read(first + MIDDLE)
    await one.read(first + EVENTS)


async def write(runtime: Runtime, uid: str, numbers: range) -> None:
    for number in numbers:
        await runtime.rename(uid, f"title {number}")
