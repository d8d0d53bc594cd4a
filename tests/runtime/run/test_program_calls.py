"""Steps and programs called in unusual ways."""

from __future__ import annotations

import subprocess
import sys

import pytest

import perdure
from perdure import Session, program


@program
async def review_counter(s: Session) -> int:
    return await s.step("count", len, [1, 2, 3])


def test_a_step_may_be_a_function_whose_parameters_have_no_names() -> None:
    assert perdure.run(review_counter.bind(), store="memory:") == 3


AWAITABLE = """
import perdure

async def fetched(n: int) -> int:
    return n

@perdure.program
async def review_lambda(s: perdure.Session) -> int:
    return await s.step("fetch", lambda: fetched(3))  # mypy strict accepts it

print(perdure.run(review_lambda.bind(), store="memory:"))
"""


IN_A_LOOP = """
import asyncio
import perdure

@perdure.program
async def review_inside(s: perdure.Session) -> int:
    return 1

async def main() -> None:
    try:
        perdure.run(review_inside.bind(), store="memory:")
    except perdure.ConfigError as error:
        print(error.code)

asyncio.run(main())
"""


def said_by(script: str) -> str:
    """The output of a script, run in its own process because a coroutine that is never awaited warns at any time."""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False).stdout.strip()


@pytest.mark.slow
def test_a_step_that_returns_an_awaitable_is_awaited() -> None:
    assert said_by(AWAITABLE) == "3"


@pytest.mark.slow
def test_run_inside_a_running_loop_explains_what_to_do() -> None:
    assert said_by(IN_A_LOOP) == "config"


@program
async def review_unbound(s: Session) -> None:
    await s.child(review_counter)  # type: ignore[arg-type]


async def test_a_program_without_arguments_gets_a_hint_about_bind() -> None:
    async with perdure.open("memory:") as rt:
        with pytest.raises(perdure.ConfigError) as told:
            await rt.start(review_unbound)  # type: ignore[arg-type]
        assert "review_unbound.bind(" in told.value.hint
        await rt.start(review_unbound.bind(), id="s")
        assert (await rt.run("s")).error["code"] == "config"
