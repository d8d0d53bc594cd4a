"""The programs of the workers that the benchmarks start."""

from __future__ import annotations

import time

from perdure import Session, program


def echo(content: str) -> str:
    return content


@program
async def bench_one_step(s: Session, text: str) -> int:
    """A session with one recorded step."""
    return len(await s.step("echo", echo, text))


@program
async def bench_parked(s: Session, text: str) -> int:
    """A session that waits for a person."""
    return len(str(await s.ask(text)))


def short_work(number: int) -> int:
    time.sleep(0.01)
    return number


@program
async def bench_busy(s: Session, count: int) -> int:
    """A session that records a step every ten milliseconds."""
    for number in range(count):
        await s.step(f"work {number}", short_work, number)
    return count
