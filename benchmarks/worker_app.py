"""The programs of the workers that the benchmarks start."""

from __future__ import annotations

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
