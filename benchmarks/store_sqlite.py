"""The store on SQLite against apsw alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw

from benchmarks.measure import Budget, Contestant, Line, contest, figure, least, one_core
from benchmarks.raw import RawEvents, RawGroupCommit, RawSQLite
from benchmarks.sessions import MESSAGE, SHORT, Steps, append, hold, hold_one
from benchmarks.syncs import CountingVFS
from perdure.clock import SystemClock
from perdure.evaluation.measurement import (
    BYTES,
    COUNT,
    MICROSECONDS,
    MILLISECONDS,
    PER_SECOND,
    cpu,
    p50,
    p50_awaited,
    rate_of_tasks,
)
from perdure.evaluation.payload import text
from perdure.store.databases.sqlite.database import SQLite
from perdure.store.move import Move
from perdure.store.moves import step
from perdure.store.store import Store, open_store

TURNS, TIMES = 12, 20
ONE = Budget("=", 1)


def lines(folder: Path, rounds: int) -> Iterator[Line]:
    yield from one_after_another(folder, rounds, growing=True)
    yield from one_after_another(folder, rounds, growing=False)
    yield from syncs_alone(folder)
    for tasks in (64, 256):
        yield from many_at_once(folder, tasks, rounds)
        yield syncs_together(folder, tasks)
    yield from processor(rounds)
    yield bytes_at_rest(folder)
    yield from bulk_read(folder, rounds)


def one_after_another(folder: Path, rounds: int, *, growing: bool) -> Iterator[Line]:
    """A write-ahead log that grows costs twice as much to sync as one that begins anew: both are measured.

    It grows in a young file, and for as long as a reader holds on to an old state; later it is used again and again.
    """
    state = "log grows" if growing else "log begins anew"
    files = [folder / f"{name}-{growing}.db" for name in ("raw", "alone")]
    with closing(RawSQLite(files[0])) as raw, open_store(files[1]) as store:
        holder, steps = hold_one(store), Steps(store)
        readers = [apsw.Connection(str(file)) for file in files] if growing else []
        for reader in readers:
            reader.execute("begin; select count(*) from sqlite_master").fetchall()
        for number in range(0 if growing else 1500):
            raw.insert(text(SHORT, number))
            store.write_now(append(holder, number))

        async def awaited() -> float:
            return await p50_awaited(lambda number: store.write(append(holder, number)), TIMES)

        yield from contest(
            MILLISECONDS,
            lambda: p50(lambda number: raw.insert(text(SHORT, number)), TIMES),
            [
                Contestant(
                    f"event, alone, write_now, {state}",
                    lambda: p50(lambda number: store.write_now(append(holder, number)), TIMES),
                    Budget("≤", 2.0),
                ),
                Contestant(f"event, alone, await write, {state}", lambda: asyncio.run(awaited()), Budget("≤", 2.0)),
                Contestant(
                    f"step, alone, write_now, {state}",
                    lambda: p50(lambda _: store.write_now(steps.record()), TIMES),
                    Budget("≤", 2.2),
                ),
            ],
            rounds=rounds,
            turns=TURNS,
        )
        for reader in readers:
            reader.close()


def counted(folder: Path, name: str, vfs: CountingVFS) -> Store:
    return Store(SQLite(folder / name, SystemClock(), vfs=vfs.name, exclusive=True), name)


def syncs_alone(folder: Path) -> Iterator[Line]:
    vfs = CountingVFS()
    with counted(folder, "counted-alone.db", vfs) as store:
        holder, steps = hold_one(store), Steps(store)

        def syncs(move: Callable[[int], Move[int]]) -> float:
            before = vfs.syncs
            for number in range(50):  # so few that the log does not grow long enough for a checkpoint, which syncs too
                store.write_now(move(number))
            return (vfs.syncs - before) / 50

        yield figure("syncs per event, alone", COUNT, lambda: syncs(lambda number: append(holder, number)), ONE)
        yield figure("syncs per step, alone", COUNT, lambda: syncs(lambda _: steps.record()), ONE)
    vfs.unregister()


def syncs_together(folder: Path, tasks: int) -> Line:
    vfs = CountingVFS()
    with counted(folder, f"counted-{tasks}.db", vfs) as store:
        holders = hold(store, tasks)
        before = vfs.syncs
        asyncio.run(rate_of_tasks(tasks, 40, lambda task, number: store.write(append(holders[task], number))))
        made = (vfs.syncs - before) / (tasks * 40)
    vfs.unregister()
    return figure(f"syncs per event, {tasks} sessions", COUNT, lambda: made, Budget("<", 0.1))


def many_at_once(folder: Path, tasks: int, rounds: int) -> Iterator[Line]:
    """Three limits: tasks that hand a row to one writer; a bare loop of rows; a bare loop of all rows of an event."""
    each = 12_800 // tasks
    with (
        closing(RawSQLite(folder / f"raw-{tasks}.db")) as raw,
        closing(raw_events(folder / f"rows-{tasks}.db", tasks)) as rows,
        open_store(folder / f"many-{tasks}.db") as store,
    ):
        holders = hold(store, tasks)

        async def handed() -> float:
            with closing(RawGroupCommit(raw)) as writer:
                return await rate_of_tasks(tasks, each, lambda _, number: writer.insert(text(SHORT, number)))

        async def written() -> float:
            return await rate_of_tasks(tasks, each, lambda task, number: store.write(append(holders[task], number)))

        def bare() -> float:
            return tasks / p50(lambda number: raw.group([text(SHORT, number)] * tasks), each)

        def bare_events() -> float:
            return tasks / p50(lambda number: rows.group(text(SHORT, number)), each)

        def mine() -> float:
            return asyncio.run(written())

        for limit, against, budget in (
            (lambda: asyncio.run(handed()), "tasks that share a raw writer", Budget("≥", 0.5)),
            (bare, "a bare loop of inserts", None),
            (bare_events, "a bare loop of their rows", None),
        ):
            contestant = Contestant(f"events, {tasks} sessions, against {against}", mine, budget)
            yield from contest(PER_SECOND, limit, [contestant], rounds=rounds)


def raw_events(path: Path, sessions: int) -> RawEvents:
    with open_store(path) as store:
        holders = hold(store, sessions)
    return RawEvents(path, [holder.uid for holder in holders])


def processor(rounds: int) -> Iterator[Line]:
    """On SQLite in memory there is nothing to sync and no file to lock: what is left is ours and SQLite's.

    On one core, because waking an idle second one costs a virtual machine as much again, and whether it is idle is up
    to the neighbours.
    """
    with open_store("memory:") as store:
        holder, holders = hold_one(store), hold(store, 64)

        def alone() -> float:
            return cpu(lambda number: store.write_now(append(holder, number)), 1000)

        async def written() -> None:
            await rate_of_tasks(64, 50, lambda task, number: store.write(append(holders[task], number)))

        with one_core():
            yield least(
                "CPU per event without sync, alone, on one core",
                MICROSECONDS,
                alone,
                Budget("≤", 60e-6),
                rounds=rounds * 4,
            )
        yield least("CPU per event without sync, alone, on any core", MICROSECONDS, alone, rounds=rounds * 4)
        yield least(
            "CPU per event without sync, 64 sessions",
            MICROSECONDS,
            lambda: cpu(lambda _: asyncio.run(written()), 1) / (64 * 50),
            Budget("≤", 60e-6),
            rounds=rounds * 4,
        )


def bytes_at_rest(folder: Path, messages: int = 3000) -> Line:
    path = folder / "rest.db"
    with open_store(path) as store:
        holder = hold_one(store)
    before = path.stat().st_size
    with open_store(path) as store:
        for number in range(messages):
            store.write_now(append(holder, number, MESSAGE))
    grown = (path.stat().st_size - before) / messages
    return figure("1 KB message at rest", BYTES, lambda: grown, Budget("≤", 3 * 1024))


def bulk_read(folder: Path, rounds: int, count: int = 10_000) -> Iterator[Line]:
    path = folder / "steps.db"
    with open_store(path) as store:
        steps = Steps(store)

        asyncio.run(rate_of_tasks(100, count // 100, lambda _task, _number: store.write(steps.record())))
        db = apsw.Connection(str(path))
        uid = steps.holder.uid

        def raw(_: int) -> object:
            return db.execute("select * from step where session_uid = ? order by number", (uid,)).fetchall()

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
        db.close()
