"""The group `service`: what a request costs over HTTP, many subscribers, and the memory of the process `http`.

Requests are compared with the same work on the bare store, in turns. The clients and the service share the machine.
`PERDURE_BENCH_MINUTES` sets for how many minutes the memory is watched.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec

from benchmarks.measure import Budget, Contestant, Line, Table, contest, judged
from benchmarks.service_clients import KeptConnection, Subscriber
from benchmarks.service_process import HttpService, credentials, http_service
from benchmarks.worker_app import bench_one_step
from perdure.console import timeline
from perdure.console.pages.session import around
from perdure.evaluation.growth.agent_session import build
from perdure.evaluation.measurement import COUNT, MILLISECONDS, PER_SECOND, TIMES
from perdure.runtime.runtime import Runtime
from perdure.runtime.runtime import open as open_runtime
from perdure.store.move import StoreTransaction
from perdure.store.moves import event, task, wait
from perdure.store.moves import session as sessions
from perdure.testing.postgres import PostgresServer

EVENTS = 100_000
STARTS, READS, AT_ONCE = 200, 200, 8
SUBSCRIBERS, FOLLOWED, DELIVERED, SECONDS = 1_000, 10, 1_000, 20  # in all; sessions; events a second; for so long
MINUTES = float(os.environ.get("PERDURE_BENCH_MINUTES", "1"))
BUDGET = Budget("≤", 3.0)


def tables(folder: Path, rounds: int) -> Iterator[Table]:
    yield Table("the service on SQLite", lines(folder / "service.db", rounds))
    yield Table("the service on PostgreSQL", postgres(rounds))


def postgres(rounds: int) -> Iterator[Line]:
    with PostgresServer() as server:
        yield from lines(server.create_database(), rounds)


def lines(target: str | Path, rounds: int) -> Iterator[Line]:
    with asyncio.Runner() as runner, ExitStack() as stack:
        runtime = open_runtime(target)
        stack.callback(runtime.close)
        runner.run(build(runtime, "long", EVENTS, size=200))
        service = stack.enter_context(http_service(runtime, *runner.run(credentials(runtime))))
        bench = Requests(runtime, service, runner)
        stack.callback(bench.close)
        yield from bench.lines(rounds)
        yield from runner.run(subscribers(runtime, service))
        yield from memory(runtime, service)


class Requests:
    """The same work on the bare store and through the service."""

    def __init__(self, runtime: Runtime, service: HttpService, runner: asyncio.Runner) -> None:
        self._runtime, self._store, self._runner = runtime, runtime.store, runner
        bearer = f"Authorization: Bearer {service.token}"
        self._kept = [KeptConnection(service.host, service.port, bearer) for _ in range(AT_ONCE)]
        self._service = service
        self._number = 0
        self._uid = self._store.read_now(sessions.find, "long").uid
        self._cursor = self._store.read_now(sessions.get, self._uid).cursor

    def close(self) -> None:
        for one in self._kept:
            one.close()

    def lines(self, rounds: int) -> Iterator[Line]:
        yield from contest(
            PER_SECOND, lambda: self._runner.run(self._bare_starts()),
            [Contestant(f"starts, {AT_ONCE} at once", lambda: self._runner.run(self._starts()))], rounds=rounds,
        )  # fmt: skip
        yield from contest(
            PER_SECOND, self._rate(lambda: self._store.read_now(sessions.get, self._uid)),
            [Contestant("reads of a session, one at a time", self._rate(lambda: self._get("/v1/sessions/long")))],
            rounds=rounds,
        )  # fmt: skip
        for count in (1, 100):
            yield from self._event_reads(count, rounds)
        yield from contest(
            MILLISECONDS, self._median(lambda: self._store.read_now(self._page)),
            [Contestant(f"first byte of a page of a session with {EVENTS:,} events", self._first_byte, BUDGET)],
            rounds=rounds,
        )  # fmt: skip

    def _event_reads(self, count: int, rounds: int) -> Iterator[Line]:
        at = self._cursor - 1_000
        path, case = f"/v1/sessions/long/events?after={at}&limit={count}", f"read of {count} of {EVENTS:,} events"
        return contest(
            MILLISECONDS, self._median(lambda: self._store.read_now(event.after, self._uid, at, limit=count)),
            [Contestant(case, self._median(lambda: self._get(path)), BUDGET)], rounds=rounds,
        )  # fmt: skip

    def _page(self, tx: StoreTransaction) -> object:
        """What the page of a session reads."""
        about, whole = around(tx, self._uid), self._runtime.values.whole
        lines = timeline.read(tx, self._uid, about.session.cursor, whole)
        return about, lines, wait.open_of_session(tx, self._uid), task.of_session(tx, self._uid)

    def _first_byte(self) -> float:
        service = self._service
        with closing(KeptConnection(service.host, service.port, f"Cookie: {service.cookie}")) as browser:
            return statistics.median(browser.ask("GET", "/sessions/long").first_byte for _ in range(20)) / 1e6

    def _get(self, path: str) -> bytes:
        found = self._kept[0].ask("GET", path)
        assert found.status == 200, found
        return found.body

    @staticmethod
    def _rate(work: Callable[[], object]) -> Callable[[], float]:
        def turn() -> float:
            begun = time.perf_counter()
            for _ in range(READS):
                work()
            return READS / (time.perf_counter() - begun)

        return turn

    @staticmethod
    def _median(work: Callable[[], object]) -> Callable[[], float]:
        def once() -> float:
            begun = time.perf_counter()
            work()
            return time.perf_counter() - begun

        return lambda: statistics.median(once() for _ in range(50))

    async def _bare_starts(self) -> float:
        async def some() -> None:
            for _ in range(STARTS // AT_ONCE):
                await self._runtime.start(bench_one_step.bind(self._text()))

        return await self._timed(some)

    async def _starts(self) -> float:
        waiting = list(self._kept)

        async def some() -> None:
            connection = waiting.pop()
            for _ in range(STARTS // AT_ONCE):
                body = {"program": "bench_one_step", "arguments": {"text": self._text()}}
                key = f"Idempotency-Key: {self._number}-{id(connection)}"
                found = await asyncio.to_thread(connection.ask, "POST", "/v1/sessions", msgspec.json.encode(body), key)
                assert found.status == 201, found

        return await self._timed(some)

    async def _timed(self, some: Callable[[], object]) -> float:
        begun = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(some())  # type: ignore[arg-type]
        return STARTS / (time.perf_counter() - begun)

    def _text(self) -> str:
        self._number += 1
        return f"text {self._number}"


async def subscribers(runtime: Runtime, service: HttpService) -> list[Line]:
    """Many clients follow a few sessions, each with its share; every event must reach each of its clients once."""
    followed = [
        await runtime.start(bench_one_step.bind("follow"), id=f"followed-{number}") for number in range(FOLLOWED)
    ]
    rounds = DELIVERED * SECONDS // SUBSCRIBERS  # of one event in each session
    through = followed[0].cursor + rounds + 1
    readers = [
        Subscriber(service.host, service.port, service.token, one.uid, one.cursor)
        for one in followed for _ in range(SUBSCRIBERS // FOLLOWED)
    ]  # fmt: skip
    reading = asyncio.gather(*(one.read(through) for one in readers))
    for one in followed:
        await runtime.rename(one.uid, "begin")
    await asyncio.gather(*(one.began.wait() for one in readers))
    began = time.perf_counter()
    for number in range(rounds):
        for place, one in enumerate(followed):
            due = began + (number + place / FOLLOWED) * SUBSCRIBERS / DELIVERED
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await runtime.rename(one.uid, f"title {number}")
    await reading
    return delivered(readers, through, SUBSCRIBERS * rounds / (time.perf_counter() - began))


def delivered(readers: list[Subscriber], through: int, rate: float) -> list[Line]:
    """What came, in figures. Lost are those that are missing, repeated or out of order."""
    wanted = [through - one.after for one in readers]
    lost = sum(abs(most - len(one.numbers)) for most, one in zip(wanted, readers, strict=True))
    lost += sum(1 for one in readers if one.problems(through))
    delays = sorted(delay / 1e6 for one in readers for delay in one.delays[1:])
    late, latest = (MILLISECONDS.show(delays[len(delays) * part // 100]) for part in (50, 99))
    return [
        Line(
            case=f"events to {len(readers):,} subscribers",
            raw=f"{DELIVERED:,}/s offered",
            perdure=PER_SECOND.show(rate),
        ),
        Line(case=f"of {sum(wanted):,} events lost", perdure=f"{lost}", **judged(Budget("=", 0), lost, COUNT)),
        Line(case="from an event to its subscriber", perdure=f"{late}, 99 of 100 within {latest}"),
    ]


def memory(runtime: Runtime, service: HttpService) -> Iterator[Line]:
    """The memory of the process under reads, starts, pages and streams that come and go."""

    def work(rounds: int) -> None:
        bearer = f"Authorization: Bearer {service.token}"
        with (
            closing(KeptConnection(service.host, service.port, bearer)) as client,
            closing(KeptConnection(service.host, service.port, f"Cookie: {service.cookie}")) as browser,
        ):
            for _ in range(rounds):
                client.ask("GET", "/v1/sessions/long/events?limit=100")
                client.ask("GET", "/v1/sessions")
                client.ask("POST", "/v1/sessions/followed-0/rename", b'{"title": "again"}')
                browser.ask("GET", "/sessions/long")
        cursor = runtime.store.read_now(sessions.find, "followed-0").cursor
        asyncio.run(asyncio.wait_for(Subscriber(*service[:3], "followed-0", max(0, cursor - 100)).read(cursor), 60))

    work(200)  # caches fill
    first, until, rounds = service.resident, time.monotonic() + MINUTES * 60, 0
    while time.monotonic() < until:
        work(20)
        rounds += 20
    last = service.resident
    case = f"memory of the process after {MINUTES:g} minutes and {rounds * 4:,} requests, to the first"
    yield Line(
        case=case, raw=f"{first / 1e6:,.1f} MB", perdure=f"{last / 1e6:,.1f} MB", ratio=TIMES.show(last / first),
        **judged(Budget("≤", 1.1), last / first, TIMES),
    )  # fmt: skip
