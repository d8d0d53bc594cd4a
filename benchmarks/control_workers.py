"""Workers side by side: sessions per second, processor time, lock waits, wake-ups, and memory of parked sessions."""

from __future__ import annotations

import os
import re
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import peer
from benchmarks.measure import Budget, Line, judged
from benchmarks.sessions import SHORT
from benchmarks.worker_app import bench_busy, bench_one_step, bench_parked
from benchmarks.worker_processes import memory, processor_time, supervised, workers
from perdure.evaluation.measurement import COUNT, MICROSECONDS, MILLISECONDS, PER_SECOND, TIMES
from perdure.evaluation.payload import text
from perdure.ids import new_uid
from perdure.runtime.definitions.program import Bound
from perdure.store.moves import queue, session
from perdure.store.moves.session import NewSession
from perdure.store.store import Store, open_store
from perdure.testing.postgres import PostgresServer
from perdure.testing.proxy import wait_until

SESSIONS = int(os.environ.get("BENCH_SESSIONS", "400"))
PARKED = int(os.environ.get("BENCH_PARKED", "10000"))
WAKEUP = Budget("≤", 0.050)
RATE = Budget("≥", 1.0)
TAKEOVER = Budget("≤", 1.0)
OF_QUEUE = "session_uid in (select uid from session where queue = :name)"


def lines(folder: Path, server: PostgresServer | None, rounds: int) -> Iterator[Line]:
    folder.mkdir()
    target = str(folder / "workers.db") if server is None else server.create_database()
    with open_store(target) as store:
        yield from side_by_side(store, rounds)
        yield wake_up(store)
        yield takeover(store)
        yield from parked(store)
    if server is not None and peer.installed():
        yield from against_peers(server, rounds)


def start(store: Store, bound: Bound[int], name: str, count: int) -> None:
    for _ in range(count):
        new = NewSession(
            id=f"b-{new_uid()}", program=bound.program.name, arguments=bound.arguments, queue=name, owner="bench"
        )
        store.write_now(session.create(new, by="bench"))


def ask(store: Store, question: str, **values: Any) -> tuple[Any, ...]:
    """The first row that a question returns. Its parameters are written as for SQLite."""
    text = re.sub(r":([a-z]+)", r"%(\1)s", question) if store.database.dialect == "postgres" else question
    return store.read_now(lambda tx: tuple(next(iter(tx._db.execute(text, values)))))  # type: ignore[attr-defined]


def ended(store: Store, name: str, *, status: str = "done") -> int:
    question = "select count(*) from session where queue = :name and status = :status"
    return int(ask(store, question, name=name, status=status)[0])


def span_of(store: Store, name: str) -> float:
    """Seconds from the first claim to the last end of the sessions of a queue."""
    kinds = "kind in ('lease.acquired', 'session.finished')"
    first, last = ask(store, f"select min(at), max(at) from event where {kinds} and {OF_QUEUE}", name=name)
    return float(last - first) / 1e6


def drain(store: Store, count: int, sessions: int) -> dict[str, float]:
    """Let so many workers run sessions that are ready, from the first claim to the last end."""
    name = f"q-{new_uid()[:12]}"
    store.write_now(queue.set_limits(name, "bench", paused=True))
    start(store, bench_one_step.bind(text(SHORT, 1)), name, sessions)
    with workers(store, count) as processes, LockWaits(store) as waits:
        before = sum(processor_time(one) for one in processes)
        store.write_now(queue.set_limits(name, "bench", paused=False))
        wait_until(lambda: ended(store, name) == sessions, "all sessions are done", patience=300)
        used = sum(processor_time(one) for one in processes) - before
    return {
        "rate": sessions / span_of(store, name),
        "cpu": used / sessions,
        "waits": waits.share,
        "deadlocks": waits.deadlocks / sessions,
    }


class LockWaits:
    """How often a connection was seen to wait for a lock, and how many deadlocks were broken."""

    def __init__(self, store: Store) -> None:
        self._url = store.target if store.database.dialect == "postgres" else None
        self._stop = threading.Event()
        self._seen, self._samples = 0, 0
        self.deadlocks = 0

    def __enter__(self) -> LockWaits:
        self._before = self._deadlocks()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.deadlocks = self._deadlocks() - self._before

    @property
    def share(self) -> float:
        return self._seen / max(1, self._samples)

    def _deadlocks(self) -> int:
        if self._url is None:
            return 0
        time.sleep(1.2)  # a connection reports at most once a second
        with psycopg.connect(self._url, autocommit=True) as db:
            question = "select deadlocks from pg_stat_database where datname = current_database()"
            row = db.execute(question).fetchone()
        return int(row[0]) if row else 0

    def _sample(self) -> None:
        if self._url is None:
            return
        question = (
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        )
        with psycopg.connect(self._url, autocommit=True) as db:
            while not self._stop.wait(0.02):
                row = db.execute(question).fetchone()
                self._seen, self._samples = self._seen + (int(row[0]) if row else 0), self._samples + 1


def side_by_side(store: Store, rounds: int) -> Iterator[Line]:
    first: dict[str, float] = {}
    for count in (1, 2, 4, 8):
        all_rounds = [drain(store, count, SESSIONS) for _ in range(rounds)]
        now = {name: statistics.median(one[name] for one in all_rounds) for name in all_rounds[0]}
        first = first or now
        yield Line(
            case=f"sessions per second, {count} workers, to 1", raw=PER_SECOND.show(first["rate"]),
            perdure=PER_SECOND.show(now["rate"]), ratio=TIMES.show(now["rate"] / first["rate"]),
        )  # fmt: skip
        yield Line(
            case=f"processor time of workers per session, {count} workers, to 1", raw=MICROSECONDS.show(first["cpu"]),
            perdure=MICROSECONDS.show(now["cpu"]), ratio=TIMES.show(now["cpu"] / first["cpu"]),
        )  # fmt: skip
        if store.database.dialect == "postgres":
            yield Line(case=f"connections that wait for a lock, {count} workers", perdure=COUNT.show(now["waits"]))
            yield Line(case=f"deadlocks per session, {count} workers", perdure=COUNT.show(now["deadlocks"]))


def wake_up(store: Store, times: int = 40) -> Line:
    """From the start of a session in this process to its claim in an idle worker."""
    name = f"q-{new_uid()[:12]}"
    taken = []
    with workers(store, 1):
        time.sleep(1.0)  # until the worker is idle
        for number in range(times):
            queued = f"{name}-{number}"
            start(store, bench_one_step.bind("x"), queued, 1)
            wait_until(lambda queued=queued: ended(store, queued) == 1, "it is done")  # type: ignore[misc]
            taken.append(claim_delay(store, queued))
            time.sleep(0.02)
    value = statistics.median(taken)
    shown = f"{MILLISECONDS.show(value)} (largest {MILLISECONDS.show(max(taken))})"
    return Line(case="wake-up of an idle worker, start to claim", perdure=shown, **judged(WAKEUP, value, MILLISECONDS))


def claim_delay(store: Store, name: str) -> float:
    """From the event that created the session of a queue to the event that claimed it."""
    claimed = "max(case when kind = 'lease.acquired' then at end)"
    created = "min(case when kind = 'session.created' then at end)"
    (delay,) = ask(store, f"select {claimed} - {created} from event where {OF_QUEUE}", name=name)
    return float(delay) / 1e6


def takeover(store: Store, kills: int = 7) -> Line:
    """From the SIGKILL of the worker that runs a session to the next event of that session, in another worker."""
    name = f"q-{new_uid()[:12]}"
    with supervised(store, 2):
        start(store, bench_busy.bind(100_000), name, 1)
        taken = [one_takeover(store, name) for _ in range(kills)]
    value = statistics.median(taken)
    shown = f"{MILLISECONDS.show(value)} (largest of {kills}: {MILLISECONDS.show(max(taken))})"
    case = "SIGKILL of a worker to the next step, under `perdure serve`"
    return Line(case=case, perdure=shown, **judged(TAKEOVER, value, MILLISECONDS))


def one_takeover(store: Store, name: str) -> float:
    steps = f"from event where kind = 'step.recorded' and {OF_QUEUE}"

    def count() -> int:
        return int(ask(store, f"select count(*) {steps}", name=name)[0])

    before = count()
    wait_until(lambda: count() > before + 10, "the session makes progress", patience=120)
    (holder,) = ask(store, "select lease_holder from session where queue = :name", name=name)
    os.kill(int(str(holder).rpartition(":")[2]), signal.SIGKILL)
    killed_at = time.time_ns() // 1000
    ended_at = int(ask(store, f"select max(at) {steps}", name=name)[0])  # a commit may have been under way
    last = max(killed_at, ended_at)
    wait_until(lambda: int(ask(store, f"select max(at) {steps}", name=name)[0]) > last, "it continues", patience=120)
    (first,) = ask(store, f"select min(at) {steps} and at > :last", name=name, last=last)
    return float(first - killed_at) / 1e6


def parked(store: Store) -> Iterator[Line]:
    """Memory of one worker before and after it has run sessions that now wait for a person."""
    name = f"q-{new_uid()[:12]}"
    few = max(1, PARKED // 10)
    with workers(store, 1) as (process,):
        start(store, bench_parked.bind("continue?"), name, few)
        wait_until(lambda: ended(store, name, status="waiting") == few, "all wait", patience=600)
        before = memory(process)
        start(store, bench_parked.bind("continue?"), name, PARKED - few)
        wait_until(lambda: ended(store, name, status="waiting") == PARKED, "all wait", patience=600)
        after = memory(process)
    yield Line(
        case=f"memory of a worker, {PARKED:,} parked sessions to {few:,}", raw=f"{before / 1e6:,.1f} MB",
        perdure=f"{after / 1e6:,.1f} MB", ratio=TIMES.show(after / before),
        **judged(Budget("≤", 1.1), after / before, TIMES),
    )  # fmt: skip


def against_peers(server: PostgresServer, rounds: int) -> Iterator[Line]:
    """Sessions per second of one worker process, in turns: Perdure, DBOS queues, Absurd."""
    figures: dict[str, list[float]] = {"Perdure": [], "DBOS queues": [], "Absurd": []}
    with open_store(server.create_database()) as store:
        for _ in range(rounds):
            figures["Perdure"].append(drain(store, 1, SESSIONS)["rate"])
            figures["DBOS queues"].append(peer.dbos("queue", server.create_database(), SESSIONS))
            figures["Absurd"].append(peer.absurd(server.create_database(), SESSIONS))
    mine = statistics.median(figures["Perdure"])
    for name in ("DBOS queues", "Absurd"):
        ratios = [a / b for a, b in zip(figures["Perdure"], figures[name], strict=True)]
        ratio = statistics.median(ratios)
        yield Line(
            case=f"sessions per second, one worker process, to {name}",
            raw=PER_SECOND.show(statistics.median(figures[name])), perdure=PER_SECOND.show(mine),
            ratio=f"{TIMES.show(ratio)} ({min(ratios):.2f}–{max(ratios):.2f})", **judged(RATE, ratio, TIMES),
        )  # fmt: skip
