"""The group `service`: what a request costs over HTTP, many subscribers, and the memory of the process `http`.

A request is compared, in turns, with the same information read by the library: one consistent read of the open store,
awaited in an event loop, without authentication, authorization and encoding. Requests are measured at a client in this
process, on a connection that is kept; the service is another process, and both share the machine. The first byte of a
page is that of its body. `--minutes` says for how long the memory is watched.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psycopg

from benchmarks.measure import Budget, Contestant, Line, Table, contest, judged
from benchmarks.service_clients import Answer, KeptConnection, Subscriber
from benchmarks.service_memory import memory
from benchmarks.service_process import HttpService, credentials, http_service
from benchmarks.worker_app import bench_one_step
from perdure.console import timeline
from perdure.console.pages.session import around
from perdure.evaluation.growth.agent_session import build
from perdure.evaluation.measurement import COUNT, MICROSECONDS, MILLISECONDS, PER_SECOND, Unit
from perdure.runtime.runtime import Runtime
from perdure.runtime.runtime import open as open_runtime
from perdure.server.http_process import raise_file_limit
from perdure.store.move import StoreTransaction
from perdure.store.moves import event, task, wait
from perdure.store.moves import session as sessions
from perdure.testing.postgres import PostgresServer

EVENTS, FEW = 100_000, 1_000  # in the history of requests; in that of the memory
STARTS, READS, PAGES, AT_ONCE = 200, 1_000, 20, 8
SUBSCRIBERS, FOLLOWED, DELIVERED, SECONDS = 1_000, 10, 1_000, 20  # in all; sessions; events a second; for so long
BUDGET = Budget("≤", 3.0)
Query = Callable[[StoreTransaction], object]
Measured = Callable[[Runtime, HttpService, asyncio.Runner], Iterator[Line]]


def tables(folder: Path, rounds: int) -> Iterator[Table]:
    def requests(runtime: Runtime, service: HttpService, runner: asyncio.Runner) -> Iterator[Line]:
        yield from Requests(runtime, service, runner).lines(rounds)
        yield from runner.run(subscribers(runtime, service))

    for title, measured, events in (("requests", requests, EVENTS), ("memory", watched, FEW)):
        for name, target in (("SQLite", on_sqlite(folder)), ("PostgreSQL", on_postgres)):
            yield Table(f"the service on {name}, {title}", lines(target, measured, events))


def watched(runtime: Runtime, service: HttpService, runner: asyncio.Runner) -> Iterator[Line]:
    runner.run(runtime.start(bench_one_step.bind("follow"), id="followed-0"))
    return memory(runtime, service)


def on_sqlite(folder: Path) -> Callable[[ExitStack], str | Path]:
    return lambda _: folder / f"service-{time.monotonic_ns()}.db"


def on_postgres(stack: ExitStack) -> str:
    return stack.enter_context(PostgresServer()).create_database()


def lines(target: Callable[[ExitStack], str | Path], measured: Measured, events: int) -> Iterator[Line]:
    """What is measured of a service over a new store; nothing is made before the first line is asked for."""
    raise_file_limit()
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        runtime = open_runtime(where := target(stack))
        stack.callback(runtime.close)
        runner.run(build(runtime, "long", events, size=200))
        analyze(str(where))
        service = stack.enter_context(http_service(runtime, *runner.run(credentials(runtime))))
        yield from measured(runtime, service, runner)


def analyze(target: str) -> None:
    """Give PostgreSQL the statistics that it makes of a table by itself within minutes; without them it plans badly."""
    if target.startswith("postgresql:"):
        with psycopg.connect(target, autocommit=True) as db:
            db.execute("analyze")


class Reads(NamedTuple):
    """Times of reads in seconds, and the processor time of each."""

    times: list[float]
    processor: float


class Requests:
    """The same work on the bare store and through the service."""

    def __init__(self, runtime: Runtime, service: HttpService, runner: asyncio.Runner) -> None:
        self._runtime, self._store, self._runner, self._service = runtime, runtime.store, runner, service
        self._number = 0
        self._cursor = self._store.read_now(sessions.find, "long").cursor

    def lines(self, rounds: int) -> Iterator[Line]:
        yield from contest(
            PER_SECOND, lambda: self._runner.run(self._bare_starts()),
            [Contestant(f"starts, {AT_ONCE} at once", lambda: self._runner.run(self._starts()))], rounds=rounds,
        )  # fmt: skip
        yield from self._compared("read of a session", _session, "/v1/sessions/long", rounds)
        for count in (1, 100):
            at = self._cursor - 1_000
            path = f"/v1/sessions/long/events?after={at}&limit={count}"
            case = f"read of {count} of {EVENTS:,} events"
            yield from self._compared(case, _events(at, count), path, rounds, BUDGET)
        page = f"page of a session with {EVENTS:,} events"
        yield from contest(
            MILLISECONDS, self._median(lambda: self._bare(self._page, PAGES)),
            [
                Contestant(f"first byte of a {page}", lambda: self._of_pages("first_byte"), BUDGET),
                Contestant(f"whole {page}", lambda: self._of_pages("last_byte")),
            ],
            rounds=rounds,
        )  # fmt: skip

    def _compared(
        self, case: str, query: Query, path: str, rounds: int, budget: Budget | None = None
    ) -> Iterator[Line]:  # fmt: skip
        """Time at the client, and processor time of the service, against those of the bare read."""

        def bare() -> Reads:
            return self._bare(query, READS)

        def asked() -> Reads:
            return self._asked(path)

        yield from contest(
            MILLISECONDS, self._median(bare), [Contestant(case, self._median(asked), budget)], rounds=rounds
        )
        unit: Unit = MICROSECONDS
        yield from contest(
            unit, lambda: bare().processor, [Contestant(f"{case}, processor time", lambda: asked().processor)],
            rounds=rounds,
        )  # fmt: skip

    @staticmethod
    def _median(reads: Callable[[], Reads]) -> Callable[[], float]:
        return lambda: statistics.median(reads().times)

    def _bare(self, query: Query, count: int) -> Reads:
        async def read() -> Reads:
            times, before = list[float](), time.process_time()
            for _ in range(count):
                begun = time.perf_counter()
                await self._store.read(query)
                times.append(time.perf_counter() - begun)
            return Reads(times, (time.process_time() - before) / count)

        return self._runner.run(read())

    def _asked(self, path: str) -> Reads:
        with self._client() as client:
            request = client.request("GET", path)
            client.send(request)  # the connection is made
            before = self._service.processor
            found = [_good(client.send(request)).last_byte / 1e6 for _ in range(READS)]
            return Reads(found, (self._service.processor - before) / READS)

    def _of_pages(self, what: str) -> float:
        service = self._service
        with closing(KeptConnection(service.host, service.port, f"Cookie: {service.cookie}")) as browser:
            request = browser.request("GET", "/sessions/long")
            times: list[int] = [getattr(_good(browser.send(request)), what) for _ in range(PAGES)]
            return statistics.median(times) / 1e6

    @contextmanager
    def _client(self) -> Iterator[KeptConnection]:
        service = self._service
        bearer = f"Authorization: Bearer {service.token}"
        with closing(KeptConnection(service.host, service.port, bearer)) as made:  # it would not be kept while idle
            yield made

    def _page(self, tx: StoreTransaction) -> object:
        """What the page of a session reads."""
        about = around(tx, sessions.find(tx, "long").uid)
        uid, whole = about.session.uid, self._runtime.values.whole
        return about, timeline.read(tx, uid, about.session.cursor, whole), task.of_session(tx, uid)

    async def _bare_starts(self) -> float:
        async def some() -> None:
            for _ in range(STARTS // AT_ONCE):
                await self._runtime.start(bench_one_step.bind(self._text()))

        return await self._timed(some)

    async def _starts(self) -> float:
        async def some() -> None:
            with self._client() as client:
                for _ in range(STARTS // AT_ONCE):
                    text = self._text()
                    body = msgspec.json.encode({"program": "bench_one_step", "arguments": {"text": text}})
                    key = f"Idempotency-Key: {text.replace(' ', '-')}"
                    found = await asyncio.to_thread(client.ask, "POST", "/v1/sessions", body, key)
                    assert found.status == 201, found

        return await self._timed(some)

    async def _timed(self, some: Callable[[], Any]) -> float:
        begun = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(some())
        return STARTS / (time.perf_counter() - begun)

    def _text(self) -> str:
        self._number += 1
        return f"text {self._number}"


def _session(tx: StoreTransaction) -> object:
    found = sessions.find(tx, "long")
    return found, wait.open_of_session(tx, found.uid)


def _events(after: int, count: int) -> Query:
    """Events of a session that is named, as the path of the request names it."""
    return lambda tx: event.after(tx, sessions.find(tx, "long").uid, after, limit=count)


def _good(found: Answer) -> Answer:
    assert found.status == 200, found
    return found


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
