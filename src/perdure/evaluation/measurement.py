"""How benchmarks and the evaluation measure: contestants take turns, and only ratios within one round count.

A machine is never quiet, so a time alone means little. Work is measured in rounds. In a round the contestants take
several short turns in a changing order; the median of its turns is the figure of a contestant. Figures are compared
within a round, and a table shows the median, the smallest and the largest ratio of all rounds. Nothing here asserts
anything, and nothing here knows what is measured.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

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


def one_round(all_turns: list[Turn], turns: int) -> list[float]:
    """The figure of each turn in one round."""
    taken: list[list[float]] = [[] for _ in all_turns]
    for number in range(turns):
        for place in range(len(all_turns)):
            who = (place + number) % len(all_turns)
            taken[who].append(all_turns[who]())
    return [statistics.median(mine) for mine in taken]


def ratios(rounds: Sequence[Mapping[str, float]], base: str) -> dict[str, Spread]:
    """Each contestant divided by `base` within each round that has both: smallest, median and largest."""
    names = sorted({name for figures in rounds for name in figures} - {base})
    found = {}
    for name in names:
        divided = [one[name] / one[base] for one in rounds if one.get(base) and name in one]
        if divided:
            found[name] = spread(divided)
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies, by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


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
