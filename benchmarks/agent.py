"""The group `agent`: the cost of a turn, a resume, a fork and of showing the tail after 100 and 100,000 events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from benchmarks.measure import BYTES, MILLISECONDS, Budget, Contestant, Line, Table, contest, figure, least
from benchmarks.payload import text
from perdure.agent.agent import Agent
from perdure.agent.model import OnText, Reply, Request, ToolCall
from perdure.domain.lease import Holder
from perdure.runtime.definitions.tool import tool
from perdure.runtime.run.session_lease import acquire
from perdure.runtime.runtime import Runtime
from perdure.runtime.runtime import open as open_runtime
from perdure.store.moves import event, message
from perdure.store.moves import session as sessions
from perdure.testing.postgres import PostgresServer

SHORT, LONG, PAGE = 100, 100_000, 1_000
TURNS, MANY = 10, "continue for long"
CONTEXT = 4_000  # tokens; what the model is shown is the same at both lengths


def tables(folder: Path, rounds: int) -> Iterator[Table]:
    yield Table("the agent on SQLite", lines(folder / "agent.db", rounds))
    yield Table("the agent on PostgreSQL", postgres(rounds))


def postgres(rounds: int) -> Iterator[Line]:
    with PostgresServer() as server:
        yield from lines(server.create_database(), rounds)


@tool(replay="idempotent", name="bench_note")
def note(n: int) -> str:
    """Note something."""
    return text(200, n)


class BenchModel:
    """Calls one tool, then answers; writes a summary on request."""

    name = "bench"

    def has_more_calls(self, request: Request) -> bool:
        """Whether the message asks for many calls, and some are left."""
        since = list(takewhile(lambda turn: turn.role != "user", reversed(request.turns)))
        asked = request.turns[-1 - len(since)].text
        return asked == MANY and sum(turn.role == "tool" for turn in since) < TURNS

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        on_text("x")
        if not request.tools:
            return Reply("It continued.")
        if request.turns[-1].role == "tool" and not self.has_more_calls(request):
            return Reply(text(200, request.number))
        return Reply("", (ToolCall("c", "bench_note", {"n": request.number}),), stop="calls")


agent = Agent("bench_agent", model=BenchModel(), tools=[note], context=CONTEXT, policy=None)


def lines(target: str | Path, rounds: int) -> Iterator[Line]:
    with asyncio.Runner() as runner:

        def waited(work: Callable[[], Awaitable[float]]) -> Callable[[], float]:
            return lambda: runner.run(_await(work))

        runner.run(prepare(target))
        for case, work in (
            ("resume to the next answer", resume), ("one more turn", turn), ("fork to its first answer", fork),
            ("the last 20 events", tail),
        ):  # fmt: skip
            long = Contestant(f"{case}, 100,000 events to 100", waited(partial(work, target, "long")), Budget("≤", 1.5))
            yield from contest(MILLISECONDS, waited(partial(work, target, "short")), [long], rounds=rounds, turns=5)
        yield from written(runner, target)
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
            made = await runtime.start(agent.bind("begin"), id=name)
            await runtime.run(name)
            holder = await _hold(runtime, name)
            while (await runtime.get(name)).cursor < events - PAGE:
                await runtime.store.write(message.append_lines(holder, [_line(n) for n in range(PAGE)]))
            await runtime.store.write(sessions.release(holder))
            while (await runtime.get(made.id)).cursor < events + 60:
                await runtime.send(name, "continue")
                await runtime.run(name)


async def _hold(runtime: Runtime, name: str) -> Holder:
    await runtime.send(name, "hold")
    return await acquire(runtime, await runtime.get(name))


def _line(n: int) -> dict[str, Any]:
    return {"role": "user", "content": "continue"} if n % 2 == 0 else {"role": "assistant", "content": text(200, n)}


async def resume(target: str | Path, name: str) -> float:
    begun = time.perf_counter()
    async with open_runtime(target) as runtime:
        await runtime.send(name, "continue")
        await runtime.run(name)
        return time.perf_counter() - begun


async def turn(target: str | Path, name: str) -> float:
    async with open_runtime(target) as runtime:
        await runtime.send(name, "warm up")
        await runtime.run(name)
        await runtime.send(name, "continue")
        begun = time.perf_counter()
        await runtime.run(name)
        return time.perf_counter() - begun


async def fork(target: str | Path, name: str) -> float:
    async with open_runtime(target) as runtime:
        begun = time.perf_counter()
        branch = await runtime.fork(name)
        await runtime.send(branch.id, "another way")
        await runtime.run(branch.id)
        return time.perf_counter() - begun


async def tail(target: str | Path, name: str) -> float:
    async with open_runtime(target) as runtime:
        uid = (await runtime.get(name)).uid
        begun = time.perf_counter()
        for _ in range(20):
            await runtime.store.read(event.last, uid, limit=20)
        return (time.perf_counter() - begun) / 20


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
