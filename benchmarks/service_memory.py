"""The memory of the process `http` while clients come and go, for the minutes that `--minutes` names."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import closing

from benchmarks.measure import MINUTES, Budget, Line, judged
from benchmarks.service_clients import KeptConnection, Subscriber
from benchmarks.service_process import HttpService
from perdure.evaluation.measurement import TIMES
from perdure.runtime.runtime import Runtime
from perdure.store.moves import session as sessions

WARM, ROUND = 200, 20  # rounds until caches are full; between two looks
FLAT = Budget("≤", 1.1)


def memory(runtime: Runtime, service: HttpService) -> Iterator[Line]:
    """Reads, a change, a page and a stream, again and again; the largest and the last memory, to the first."""
    minutes = float(os.environ.get(MINUTES, "1"))
    work(runtime, service, WARM)
    first, until, rounds = service.resident, time.monotonic() + minutes * 60, 0
    largest = last = first
    while time.monotonic() < until:
        work(runtime, service, ROUND)
        rounds += ROUND
        last = service.resident
        largest = max(largest, last)
    case = f"memory of the process after {minutes:g} minutes and {rounds * 4:,} requests, to the first"
    yield _line(case, first, last)
    yield _line("the largest in that time, to the first", first, largest)


def _line(case: str, first: int, now: int) -> Line:
    return Line(
        case=case, raw=f"{first / 1e6:,.1f} MB", perdure=f"{now / 1e6:,.1f} MB", ratio=TIMES.show(now / first),
        **judged(FLAT, now / first, TIMES),
    )  # fmt: skip


def work(runtime: Runtime, service: HttpService, rounds: int) -> None:
    bearer = f"Authorization: Bearer {service.token}"
    with (
        closing(KeptConnection(service.host, service.port, bearer)) as client,
        closing(KeptConnection(service.host, service.port, f"Cookie: {service.cookie}")) as browser,
    ):
        for _ in range(rounds):
            for found in (
                client.ask("GET", "/v1/sessions/long/events?limit=100"),
                client.ask("GET", "/v1/sessions"),
                client.ask("POST", "/v1/sessions/followed-0/rename", b'{"title": "again"}'),
                browser.ask("GET", "/sessions/long"),
            ):
                assert found.status == 200, found
    cursor = runtime.store.read_now(sessions.find, "followed-0").cursor
    reader = Subscriber(*service[:3], "followed-0", max(0, cursor - 100))
    asyncio.run(asyncio.wait_for(reader.read(cursor), 60))
