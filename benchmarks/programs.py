"""Programs to measure with: recorded steps and full effects, each timed where its caller stands."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import perdure
from benchmarks.sessions import SHORT
from perdure import Bound, Runtime, Session, program, tool
from perdure.evaluation.payload import text
from perdure.ids import new_uid

TAKEN: list[float] = []


def echo(content: str) -> str:
    return content


@tool(name="bench_act", replay="idempotent")
async def act(content: str) -> str:
    return content


@program
async def bench_steps(s: Session, count: int) -> int:
    for number in range(count):
        content = text(SHORT, number)
        began = time.perf_counter()
        await s.step("echo", echo, content)
        TAKEN.append(time.perf_counter() - began)
    return count


@program
async def bench_effects(s: Session, count: int) -> int:
    for number in range(count):
        content = text(SHORT, number)
        began = time.perf_counter()
        await s.do(act, content)
        TAKEN.append(time.perf_counter() - began)
    return count


@program
async def bench_long(s: Session, count: int, more: int) -> int:
    """`count` steps that are on record, then an answer to wait for."""
    for number in range(count):
        await s.step("echo", echo, text(SHORT, number))
    for number in range(more):
        await s.ask(f"more {number}?")
    return count


class Bench:
    """A runtime of its own event loop, so that a turn is a plain function."""

    def __init__(self, runtime: Runtime) -> None:
        self._loop = asyncio.new_event_loop()
        self.runtime = runtime

    def p50(self, bound: Bound[int]) -> float:
        """The median time of one call inside the program."""
        TAKEN.clear()
        self._loop.run_until_complete(self._complete(bound))
        return statistics.median(TAKEN)

    def rate(self, sessions: int, bound: Bound[int]) -> float:
        """Calls per second of so many sessions at once."""

        async def together() -> int:
            return sum(await asyncio.gather(*(self._complete(bound) for _ in range(sessions))))

        began = time.perf_counter()
        calls = self._loop.run_until_complete(together())
        return calls / (time.perf_counter() - began)

    async def _complete(self, bound: Bound[int]) -> int:
        begun = await self.runtime.start(bound, id=f"b-{new_uid()}")
        return int(self.runtime.result_of(await self.runtime.complete(begun.id)))

    def parked(self, bound: Bound[int]) -> str:
        """Start a session, run it to its first question, and return its id."""

        async def begin() -> str:
            begun = await self.runtime.start(bound, id=f"b-{new_uid()}")
            return (await self.runtime.run(begun.id)).id

        return self._loop.run_until_complete(begin())

    def answer(self, id: str) -> None:
        async def give() -> None:
            view = await self.runtime.get(id)
            await self.runtime.answer(view.waits[0].id, "continue")

        self._loop.run_until_complete(give())

    def run(self, id: str) -> None:
        self._loop.run_until_complete(self.runtime.run(id))

    def fork(self, id: str) -> None:
        self._loop.run_until_complete(self.runtime.fork(id))

    def close(self) -> None:
        self.runtime.close()
        self._loop.close()


@contextmanager
def bench(target: str | Path, connections: int = 8) -> Iterator[Bench]:
    one = Bench(perdure.open(target, connections=connections))
    try:
        yield one
    finally:
        one.close()
