"""The store on PostgreSQL against psycopg alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing

import psycopg

from benchmarks.measure import Budget, Contestant, Line, contest, figure
from benchmarks.raw import RawPostgres
from benchmarks.sessions import MESSAGE, SHORT, Steps, append, hold, hold_one
from benchmarks.syncs import wal_syncs
from perdure.evaluation.measurement import (
    BYTES,
    COUNT,
    MICROSECONDS,
    MILLISECONDS,
    PER_SECOND,
    p50,
    p50_awaited,
    rate_of_tasks,
)
from perdure.evaluation.payload import text
from perdure.store.moves import step
from perdure.store.store import open_store
from perdure.testing.postgres import PostgresServer

TURNS, TIMES = 12, 20
CONNECTIONS = 32


def lines(rounds: int) -> Iterator[Line]:
    with PostgresServer() as server:
        yield from one_after_another(server, rounds)
        yield from many_at_once(server, rounds)
        yield from syncs(server)
        yield bytes_at_rest(server)
        yield from bulk_read(server, rounds)


def one_after_another(server: PostgresServer, rounds: int) -> Iterator[Line]:
    url = server.create_database()
    with closing(RawPostgres(url, 1)) as raw, open_store(url) as store:
        holder, steps = hold_one(store), Steps(store)

        async def awaited() -> float:
            return await p50_awaited(lambda number: store.write(append(holder, number)), TIMES)

        yield from contest(
            MILLISECONDS,
            lambda: p50(lambda number: raw.insert(text(SHORT, number)), TIMES),
            [
                Contestant(
                    "event, alone, write_now",
                    lambda: p50(lambda number: store.write_now(append(holder, number)), TIMES),
                    Budget("≤", 2.0),
                ),
                Contestant("event, alone, await write", lambda: asyncio.run(awaited()), Budget("≤", 2.0)),
                Contestant(
                    "step, alone, write_now",
                    lambda: p50(lambda _: store.write_now(steps.record()), TIMES),
                    Budget("≤", 2.2),
                ),
            ],
            rounds=rounds,
            turns=TURNS,
        )


def many_at_once(server: PostgresServer, rounds: int, tasks: int = 64, each: int = 60) -> Iterator[Line]:
    url = server.create_database()
    with closing(RawPostgres(url, CONNECTIONS)) as raw, open_store(url, connections=CONNECTIONS) as store:
        holders = hold(store, tasks)

        async def written() -> float:
            return await rate_of_tasks(tasks, each, lambda task, number: store.write(append(holders[task], number)))

        yield from contest(
            PER_SECOND,
            lambda: raw.rate(tasks * each // CONNECTIONS, lambda number: text(SHORT, number)),
            [
                Contestant(
                    f"events, {tasks} sessions, {CONNECTIONS} connections",
                    lambda: asyncio.run(written()),
                    Budget("≥", 0.5),
                )
            ],
            rounds=rounds,
        )


def syncs(server: PostgresServer, times: int = 200) -> Iterator[Line]:
    """What opening, holding and closing cost is measured apart and taken off."""

    def made(noun: str, times: int) -> int:
        url = server.create_database()
        before = wal_syncs(server.url)
        with open_store(url) as store:
            holder, steps = hold_one(store), Steps(store)
            for number in range(times):
                store.write_now(append(holder, number) if noun == "event" else steps.record())
        return wal_syncs(server.url) - before

    def per(noun: str) -> float:
        return (made(noun, times) - made(noun, 0)) / times

    yield figure("syncs per event, alone", COUNT, lambda: per("event"), Budget("=", 1))
    yield figure("syncs per step, alone", COUNT, lambda: per("step"), Budget("=", 1))


def bytes_at_rest(server: PostgresServer, messages: int = 3000) -> Line:
    url = server.create_database()

    def size() -> int:
        with psycopg.connect(url, autocommit=True) as db:
            row = db.execute("select pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])

    with open_store(url) as store:
        holder = hold_one(store)
        before = size()
        for number in range(messages):
            store.write_now(append(holder, number, MESSAGE))
        grown = (size() - before) / messages
    return figure("1 KB message at rest", BYTES, lambda: grown, Budget("≤", 3 * 1024))


def bulk_read(server: PostgresServer, rounds: int, count: int = 10_000) -> Iterator[Line]:
    url = server.create_database()
    with open_store(url) as store, psycopg.connect(url, autocommit=True) as db:
        steps = Steps(store)
        for _ in range(count):
            store.write_now(steps.record())
        uid = steps.holder.uid

        def raw(_: int) -> object:
            return db.execute("select * from step where session_uid = %s order by number", (uid,)).fetchall()

        yield from contest(
            MICROSECONDS,
            lambda: p50(raw, 5) / count,
            [
                Contestant(
                    f"a step of {count:,} read in bulk",
                    lambda: p50(lambda _: store.read_now(step.of_session, uid, 0), 5) / count,
                )
            ],
            rounds=rounds,
        )
