"""How the benchmarks measure: contestants take turns, and only the ratio within one round counts.

The machine is never quiet, so a time alone means little. Every contest runs in rounds. In a round the contestants take
several short turns in a changing order. The median of the turns of a contestant is its figure, and Perdure's figure is
divided by that of the raw limit. A table shows the median, the smallest and the largest of these ratios. Nothing here
asserts anything.

A contestant is a function that does its work and returns one number: seconds, a rate, a count, bytes. The work may
happen anywhere, so a peer in another environment is a function that calls the Python of that environment.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

import msgspec

from perdure.evaluation.measurement import TIMES, Turn, Unit, one_round, show_spread, spread

MINUTES = "PERDURE_BENCH_MINUTES"  # the environment variable that `--minutes` sets, for the group that reads it


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
