"""The group `agent`: the cost of a turn, a resume, a fork and of showing the tail after 100 and 100,000 events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.measure import Budget, Contestant, Line, Table, contest, figure, least
from perdure.agent.agent import Agent
from perdure.agent.model import OnText, Reply, Request
from perdure.evaluation.growth.agent_session import MANY, TURNS, build, fork, next_turn, resume, tail
from perdure.evaluation.measurement import BYTES, MILLISECONDS
from perdure.runtime.runtime import open as open_runtime
from perdure.store.moves import event
from perdure.testing.postgres import PostgresServer

PIECES = 2_000  # of an answer
SHORT, LONG = 100, 100_000  # events; what the model is shown is the same at both lengths


def tables(folder: Path, rounds: int) -> Iterator[Table]:
    yield Table("the agent on SQLite", lines(folder / "agent.db", rounds))
    yield Table("the agent on PostgreSQL", postgres(rounds))


def postgres(rounds: int) -> Iterator[Line]:
    with PostgresServer() as server:
        yield from lines(server.create_database(), rounds)


def lines(target: str | Path, rounds: int) -> Iterator[Line]:
    with asyncio.Runner() as runner:

        def waited(work: Callable[[], Awaitable[float]]) -> Callable[[], float]:
            return lambda: runner.run(_await(work))

        runner.run(prepare(target))
        for case, work in (
            ("resume to the next answer", resume), ("one more turn", next_turn), ("fork to its first answer", fork),
            ("the last 20 events", tail),
        ):  # fmt: skip
            long = Contestant(f"{case}, 100,000 events to 100", waited(partial(work, target, "long")), Budget("≤", 1.5))
            yield from contest(MILLISECONDS, waited(partial(work, target, "short")), [long], rounds=rounds, turns=5)
        yield from written(runner, target)
        yield from contest(
            MILLISECONDS, waited(partial(streamed, target, linked=False)),
            [Contestant(f"a call of {PIECES:,} pieces that is not watched, to one that is never sent", waited(
                partial(streamed, target, linked=True)), Budget("≤", 1.1))],
            rounds=rounds, turns=5,
        )  # fmt: skip
        below, rounds = Budget("<", 0.005), rounds * 3
        yield least(
            "CPU per turn: one model call, one tool", MILLISECONDS, waited(partial(many, target)), below, rounds=rounds
        )
        whole = "CPU per model call of a whole run: resume, two model calls, one tool, rest"
        yield least(whole, MILLISECONDS, waited(partial(busy, target)), below, rounds=rounds)


async def _await(work: Callable[[], Awaitable[float]]) -> float:
    return await work()


async def prepare(target: str | Path) -> None:
    """Two sessions that differ only in the length of their history."""
    async with open_runtime(target) as runtime:
        for name, events in (("short", SHORT), ("long", LONG)):
            await build(runtime, name, events, size=200)


class Pieces:
    """A model that answers in many pieces."""

    name = "pieces"

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        for _ in range(PIECES if request.turns else 0):
            on_text("piece ")
        return Reply("piece " * PIECES)


STREAMED = Agent("bench_streamed", model=Pieces(), tools=[], policy=None)


async def streamed(target: str | Path, *, linked: bool) -> float:
    """A run with one answer of many pieces; seconds. Without a link nothing could be sent to other machines."""
    async with open_runtime(target) as runtime:
        if not linked:
            runtime.live_text.link = None
        session = await runtime.start(STREAMED.bind("answer", once=True))
        begun = time.perf_counter()
        await runtime.complete(session.id)
        return time.perf_counter() - begun


async def busy(target: str | Path) -> float:
    async with open_runtime(target) as runtime:
        await runtime.send("long", "warm up")
        await runtime.run("long")
        await runtime.send("long", "continue")
        begun = time.process_time()
        await runtime.run("long")
        return (time.process_time() - begun) / 2


async def many(target: str | Path) -> float:
    """The cost of one of many turns in one run, without the cost of starting and leaving the run."""
    async with open_runtime(target) as runtime:
        await runtime.send("long", "warm up")
        await runtime.run("long")
        taken = []
        for text in ("continue", MANY):
            await runtime.send("long", text)
            begun = time.process_time()
            await runtime.run("long")
            taken.append(time.process_time() - begun)
        return (taken[1] - taken[0]) / (TURNS - 1)


def written(runner: asyncio.Runner, target: str | Path) -> Iterator[Line]:
    """Bytes of the events of a turn."""
    short, long = (runner.run(_bytes(target, name)) for name in ("short", "long"))
    yield figure("bytes per turn, 100 events", BYTES, lambda: short)
    yield figure("bytes per turn, 100,000 events", BYTES, lambda: long)


async def _bytes(target: str | Path, name: str, turns: int = 20) -> float:
    async with open_runtime(target) as runtime:
        before = (await runtime.get(name)).cursor
        for _ in range(turns):
            await runtime.send(name, "continue")
            await runtime.run(name)
        view = await runtime.get(name)
        rows = await runtime.store.read(event.after, view.uid, before)
        return sum(len(str(row.body)) for row in rows) / turns
