"""Steps and effects of whole programs, against the raw driver and against DBOS where it is installed (`make peers`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from benchmarks import peer
from benchmarks.measure import Budget, Contestant, Line, Table, contest, figure
from benchmarks.programs import Bench, bench, bench_effects, bench_long, bench_steps
from benchmarks.raw import RawPostgres, RawSQLite
from benchmarks.sessions import SHORT
from benchmarks.syncs import CountingVFS
from perdure.clock import SystemClock
from perdure.evaluation.measurement import COUNT, MILLISECONDS, PER_SECOND, p50
from perdure.evaluation.payload import text
from perdure.runtime.runtime import Runtime
from perdure.store.databases.sqlite.database import SQLite
from perdure.store.moves import session as sessions
from perdure.store.moves import step
from perdure.store.store import Store, open_store
from perdure.testing.postgres import PostgresServer

TURNS, TIMES, MANY, LONG = 6, 40, 64, 10_000


def tables(folder: Path, rounds: int) -> Iterator[Table]:
    yield Table("effects on SQLite", sqlite(folder, rounds))
    yield Table("effects on PostgreSQL", postgres(rounds))


def sqlite(folder: Path, rounds: int) -> Iterator[Line]:
    with closing(RawSQLite(folder / "raw-effects.db")) as raw:
        yield from alone(raw.insert, folder / "effects.db", rounds)
    yield syncs(folder)
    yield from together(folder / "many.db", f"sqlite:///{folder / 'dbos.db'}", rounds, steps=10)
    yield from resume(folder / "long.db", f"sqlite:///{folder / 'dbos-long.db'}", rounds)
    yield from fork(folder / "fork.db", rounds)
    yield flat(folder)


def postgres(rounds: int) -> Iterator[Line]:
    with PostgresServer() as server:
        url = server.create_database()
        with closing(RawPostgres(server.create_database(), 1)) as raw:
            yield from alone(raw.insert, url, rounds)
        yield from together(url, server.create_database(), rounds, steps=8)
        yield from resume(url, server.create_database(), rounds)


def alone(insert: Callable[[str], None], target: str | Path, rounds: int) -> Iterator[Line]:
    with bench(target) as mine:

        def one() -> float:
            return p50(lambda number: insert(text(SHORT, number)), TIMES)

        def twice(number: int) -> None:
            insert(text(SHORT, number))
            insert(text(SHORT, number))

        def two() -> float:
            return p50(twice, TIMES)

        steps = Contestant("s.step, alone", lambda: mine.p50(bench_steps.bind(count=TIMES)), Budget("≤", 2.2))
        yield from contest(MILLISECONDS, one, [steps], rounds=rounds, turns=TURNS)
        acts = Contestant(
            "s.do, alone, to two commits", lambda: mine.p50(bench_effects.bind(count=TIMES)), Budget("≤", 2.2)
        )
        yield from contest(MILLISECONDS, two, [acts], rounds=rounds, turns=TURNS)


def syncs(folder: Path) -> Line:
    """Syncs of one effect: one for the intent, one for the outcome."""
    counting = CountingVFS("counting-effects")
    store = Store(SQLite(folder / "counted.db", SystemClock(), vfs=counting.name, exclusive=True), "counted")
    with closing(Bench(Runtime(store))) as one:
        one.p50(bench_effects.bind(count=1))
        before = counting.syncs
        one.p50(bench_effects.bind(count=1))
        base = counting.syncs - before
        before = counting.syncs
        one.p50(bench_effects.bind(count=21))  # few enough that no checkpoint comes in between
        return figure("syncs of one effect", COUNT, lambda: (counting.syncs - before - base) / 20, Budget("=", 2.0))


def together(target: str | Path, theirs: str, rounds: int, *, steps: float) -> Iterator[Line]:
    with bench(target, connections=32) as mine:
        work = Contestant(
            f"steps, {MANY} sessions, to DBOS", lambda: mine.rate(MANY, bench_steps.bind(count=20)), Budget("≥", steps)
        )
        if peer.installed():
            yield from contest(PER_SECOND, lambda: peer.dbos("rate", theirs, MANY), [work], rounds=max(3, rounds - 2))
        else:
            yield figure(work.case + " (not installed)", PER_SECOND, work.turn, rounds=rounds)
        yield figure(
            f"full effects, {MANY} sessions",
            PER_SECOND,
            lambda: mine.rate(MANY, bench_effects.bind(count=10)),
            rounds=rounds,
        )


def resume(target: str | Path, theirs: str, rounds: int) -> Iterator[Line]:
    """From opening the store to the first new move of a program with many recorded steps."""
    with bench(target) as mine:
        id = mine.parked(bench_long.bind(count=LONG, more=40))
        uid = mine.runtime.store.read_now(sessions.find, id).uid

    def bulk() -> float:
        with open_store(target) as store:
            began = time.perf_counter()
            store.read_now(step.of_session, uid, 0)
            return time.perf_counter() - began + LONG * 5e-6 / 3

    def again() -> float:
        with bench(target) as first:
            first.answer(id)
        began = time.perf_counter()
        with bench(target) as mine:
            mine.run(id)
            return time.perf_counter() - began

    mine_ = Contestant(f"resume {LONG:,} steps, to a bulk read + 5 µs a step", again, Budget("≤", 3.0))
    yield from contest(MILLISECONDS, bulk, [mine_], rounds=rounds)
    if peer.installed():
        peer.dbos("prepare", theirs, LONG)
        faster = Contestant(f"resume {LONG:,} steps, to DBOS", again, Budget("≤", 0.1))
        yield from contest(MILLISECONDS, lambda: peer.dbos("resume", theirs, LONG), [faster], rounds=3)


def fork(target: Path, rounds: int) -> Iterator[Line]:
    with bench(target) as mine:
        short = mine.parked(bench_long.bind(count=100, more=1))
        long = mine.parked(bench_long.bind(count=LONG, more=1))

        def timed(id: str) -> float:
            return p50(lambda _: mine.fork(id), 10)

        case = Contestant(f"fork at {LONG:,} events, to 100", lambda: timed(long), Budget("≤", 1.5))
        yield from contest(MILLISECONDS, lambda: timed(short), [case], rounds=rounds, turns=3)


def flat(folder: Path) -> Line:
    """Bytes of one step when the session has 4,000 already, to when it has 1,000."""

    def size(count: int) -> float:
        path = folder / f"flat-{count}.db"
        with bench(path) as mine:
            mine.p50(bench_steps.bind(count=count))
        return path.stat().st_size

    def ratio() -> float:
        first, second, third = size(1000), size(2000), size(4000)
        return (third - second) / 2000 / ((second - first) / 1000)

    return figure("bytes of a step, late to early", COUNT, ratio, Budget("≤", 1.1))
