"""How the benchmarks measure: contestants take turns, and only the ratio within one round counts.

The machine is never quiet, so a time alone means little. Every contest runs in rounds. In a round the contestants take
several short turns in a changing order. The median of the turns of a contestant is its figure, and Perdure's figure is
divided by that of the raw limit. A table shows the median, the smallest and the largest of these ratios. Nothing here
asserts anything.

A contestant is a function that does its work and returns one number: seconds, a rate, a count, bytes. The work may
happen anywhere, so a peer in another environment is a function that calls the Python of that environment.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

import msgspec

Turn = Callable[[], float]
Spread = tuple[float, float, float]


class Unit(msgspec.Struct, frozen=True):
    """How a number is shown."""

    name: str
    scale: float = 1.0
    digits: int = 0

    def show(self, value: float) -> str:
        return f"{value * self.scale:,.{self.digits}f}{self.name}"


MILLISECONDS = Unit(" ms", 1e3, 3)
MICROSECONDS = Unit(" µs", 1e6, 1)
PER_SECOND = Unit("/s")
BYTES = Unit(" B")
COUNT = Unit("", digits=3)
TIMES = Unit(" x", digits=2)


class Budget(msgspec.Struct, frozen=True):
    """The bound of a figure: for a contest a ratio to the raw limit, for a count the count itself."""

    sign: Literal["≤", "≥", "<", "="]
    bound: float

    def kept_by(self, value: float) -> bool:
        match self.sign:
            case "≤":
                return value <= self.bound
            case "≥":
                return value >= self.bound
            case "<":
                return value < self.bound
            case "=":
                return abs(value - self.bound) < 0.01


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a table."""

    case: str
    raw: str = ""
    perdure: str
    ratio: str = ""
    budget: str = ""
    verdict: str = ""


class Table(msgspec.Struct, frozen=True):
    """The lines of one group on one database."""

    title: str
    lines: Iterable[Line]


class Contestant(msgspec.Struct, frozen=True):
    """A function that is compared with the raw limit."""

    case: str
    turn: Turn
    budget: Budget | None = None


def contest(unit: Unit, raw: Turn, contestants: list[Contestant], *, rounds: int, turns: int = 1) -> Iterator[Line]:
    """Let the raw limit and all contestants compete; one line for each of them."""
    all_turns = [raw, *(contestant.turn for contestant in contestants)]
    limit, *figures = zip(*(one_round(all_turns, turns) for _ in range(rounds)), strict=True)
    for contestant, figure in zip(contestants, figures, strict=True):
        ratio = spread([mine / theirs for mine, theirs in zip(figure, limit, strict=True)])
        yield Line(
            case=contestant.case,
            raw=unit.show(statistics.median(limit)),
            perdure=unit.show(statistics.median(figure)),
            ratio=show_spread(TIMES, ratio),
            **judged(contestant.budget, ratio[1], TIMES),
        )


def one_round(all_turns: list[Turn], turns: int) -> list[float]:
    """The figure of each turn in one round."""
    taken: list[list[float]] = [[] for _ in all_turns]
    for number in range(turns):
        for place in range(len(all_turns)):
            who = (place + number) % len(all_turns)
            taken[who].append(all_turns[who]())
    return [statistics.median(mine) for mine in taken]


def figure(case: str, unit: Unit, turn: Turn, budget: Budget | None = None, *, rounds: int = 1) -> Line:
    """A figure without a raw limit: a count, a size, a time."""
    values = spread([turn() for _ in range(rounds)])
    shown = unit.show(values[1]) if rounds == 1 else show_spread(unit, values)
    return Line(case=case, perdure=shown, **judged(budget, values[1], unit))


def least(case: str, unit: Unit, turn: Turn, budget: Budget | None = None, *, rounds: int) -> Line:
    """Processor time, the least of many rounds, because other processes can only add to it."""
    values = [turn() for _ in range(rounds)]
    shown = f"{unit.show(min(values))} (least of {rounds}; median {unit.show(statistics.median(values))})"
    return Line(case=case, perdure=shown, **judged(budget, min(values), unit))


@contextmanager
def one_core() -> Iterator[None]:
    """Keep every thread of this process on one core inside the `with` block."""
    threads = [int(name) for name in os.listdir("/proc/self/task")]
    before = os.sched_getaffinity(0)
    for thread in threads:
        os.sched_setaffinity(thread, {min(before)})
    try:
        yield
    finally:
        for thread in threads:
            os.sched_setaffinity(thread, before)


def judged(budget: Budget | None, value: float, unit: Unit) -> dict[str, str]:
    if budget is None:
        return {}
    return {
        "budget": f"{budget.sign} {unit.show(budget.bound)}",
        "verdict": "met" if budget.kept_by(value) else "**missed**",
    }


def spread(values: list[float]) -> Spread:
    """Smallest, median and largest."""
    return min(values), statistics.median(values), max(values)


def show_spread(unit: Unit, values: Spread) -> str:
    low, middle, high = values
    bare = msgspec.structs.replace(unit, name="")
    return f"{unit.show(middle)} ({bare.show(low)}–{bare.show(high)})"


def p50(act: Callable[[int], object], times: int) -> float:
    """The median time of one act, in seconds."""
    taken = []
    for number in range(times):
        began = time.perf_counter()
        act(number)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


async def p50_awaited(act: Callable[[int], Awaitable[object]], times: int) -> float:
    """The same for an act that is awaited."""
    taken = []
    for number in range(times):
        began = time.perf_counter()
        await act(number)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def cpu(act: Callable[[int], object], times: int) -> float:
    """The processor time of one act, all threads of this process together, in seconds."""
    began = time.process_time()
    for number in range(times):
        act(number)
    return (time.process_time() - began) / times


async def rate_of_tasks(tasks: int, each: int, act: Callable[[int, int], Awaitable[object]]) -> float:
    """Acts per second when so many tasks do `each` of them one after another: `act(task, number)`."""

    async def work(task: int) -> None:
        for number in range(each):
            await act(task, number)

    began = time.perf_counter()
    await asyncio.gather(*(work(task) for task in range(tasks)))
    return tasks * each / (time.perf_counter() - began)
