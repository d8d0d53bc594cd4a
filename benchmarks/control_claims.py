"""The cost of a claim with 100 to 1,000,000 waiting sessions: time, rows read, and with an old snapshot held open."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import psycopg

from benchmarks.measure import Budget, Line, judged
from benchmarks.sessions import HOUR
from benchmarks.waiting_sessions import PROGRAM, WaitingSessions, nonce
from perdure.domain.lease import Holder
from perdure.domain.session import Status
from perdure.evaluation.measurement import COUNT, MILLISECONDS, TIMES
from perdure.store.moves import session
from perdure.store.moves.claim import ClaimRequest, claim
from perdure.store.store import Store, open_store

SIZES = tuple(int(size) for size in os.environ.get("BENCH_SIZES", "100,10000,100000,1000000").split(","))
BATCH = 10
DEAD = 5_000  # sessions that are claimed and ended while an old snapshot is open
ROWS = Budget("≤", 3.0)
FLAT = Budget("≤", 2.0)
STEPS = Budget("≤", 1.2)


def lines(target: str, rounds: int) -> Iterator[Line]:
    with open_store(target) as store:
        waiting = WaitingSessions(store)
        first, few = 0.0, 0.0
        for size in SIZES:
            waiting.grow(size)
            claim_time(store)  # plans the statements
            taken = statistics.median(claim_time(store) for _ in range(10 * rounds))
            first = first or taken
            yield Line(
                case=f"claim {BATCH} of {size:,}, to {BATCH} of {SIZES[0]}",
                raw=MILLISECONDS.show(first),
                perdure=MILLISECONDS.show(taken),
                ratio=TIMES.show(taken / first),
                **judged(FLAT, taken / first, TIMES),
            )
            yield cost_line(store, size, few := few or cost(store))
        before = statistics.median(claim_time(store) for _ in range(10 * rounds))
        with old_snapshot(store):
            for _ in range(DEAD // 100):
                end(store, take(store, 100))
            after = statistics.median(claim_time(store) for _ in range(10 * rounds))
        yield Line(
            case=f"claim {BATCH} of {SIZES[-1]:,}, old snapshot, {DEAD:,} ended since, to before",
            raw=MILLISECONDS.show(before),
            perdure=MILLISECONDS.show(after),
            ratio=TIMES.show(after / before),
        )


def cost_line(store: Store, size: int, few: float) -> Line:
    now = cost(store)
    if store.database.dialect == "postgres":
        case, each = f"rows read for each claimed, {size:,} waiting", now / BATCH
        return Line(case=case, perdure=COUNT.show(each), **judged(ROWS, each, COUNT))
    case = f"steps of SQLite for the queries of a claim, {size:,} waiting, to {SIZES[0]}"
    ratio = TIMES.show(now / few)
    return Line(case=case, raw=f"{few:,.0f}", perdure=f"{now:,.0f}", ratio=ratio, **judged(STEPS, now / few, TIMES))


def take(store: Store, limit: int) -> tuple[Holder, ...]:
    request = ClaimRequest(
        worker="bench", nonce=nonce(), programs=frozenset({PROGRAM}), limit=limit, ttl=HOUR, is_idle=False
    )
    return store.write_now(claim(request)).holders


def claim_time(store: Store) -> float:
    """The time of one claim; the sessions are given back afterwards."""
    began = time.perf_counter()
    holders = take(store, BATCH)
    taken = time.perf_counter() - began
    assert len(holders) == BATCH
    give_back(store, holders)
    return taken


def give_back(store: Store, holders: tuple[Holder, ...]) -> None:
    for holder in holders:
        store.write_now(session.release(holder))


def end(store: Store, holders: tuple[Holder, ...]) -> None:
    for holder in holders:
        store.write_now(session.finish(holder, Status.DONE))


def cost(store: Store) -> float:
    """What the queries of one claim read: rows on PostgreSQL, steps of the virtual machine on SQLite."""
    request = ClaimRequest(
        worker="bench", nonce=nonce(), programs=frozenset({PROGRAM}), limit=BATCH, ttl=HOUR, is_idle=False
    )
    move, read = claim(request), 0.0
    claim_all = move.run
    measure = _rows if store.database.dialect == "postgres" else _steps

    def run(tx: Any) -> Any:
        nonlocal read
        with measure(tx) as counted:
            found = claim_all(tx)
        read = counted()
        return found

    move.run = run
    give_back(store, store.write_now(move).holders)
    return read


@contextmanager
def _rows(tx: Any) -> Iterator[Callable[[], float]]:
    """The rows that queries read. Updates read each claimed row once more, by its key; these are not counted."""
    question = (
        "select coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0) from pg_stat_xact_user_tables"
        " where relname in ('session', 'queue', 'wait')"
    )
    read = 0

    def count() -> int:
        return int(tx._db.execute(question).fetchone()[0])

    def counted(query: Callable[..., Any]) -> Callable[..., Any]:
        def ask(name: str, /, **values: Any) -> Any:
            nonlocal read
            before = count()  # this also runs what was sent before
            rows = query(name, **values)
            read += count() - before
            return rows

        return ask

    tx.all, tx.one = counted(tx.all), counted(tx.one)
    yield lambda: read


@contextmanager
def _steps(tx: Any) -> Iterator[Callable[[], float]]:
    steps = 0

    def profile(event: dict[str, Any]) -> None:
        nonlocal steps
        if event["sql"].lstrip().startswith(("select", "with")):
            steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    tx._db.trace_v2(apsw.SQLITE_TRACE_PROFILE, profile)
    try:
        yield lambda: steps
    finally:
        tx._db.trace_v2(0, None)


@contextmanager
def old_snapshot(store: Store) -> Iterator[None]:
    """A reader that keeps the state of now for as long as the block lasts."""
    question = "select count(*) from worker"
    if store.database.dialect == "sqlite":
        db = apsw.Connection(store.target)
        db.execute("begin").execute(question).fetchall()
        try:
            yield
        finally:
            db.close()
        return
    with psycopg.connect(store.target) as server:
        server.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        server.execute(question).fetchall()
        yield
