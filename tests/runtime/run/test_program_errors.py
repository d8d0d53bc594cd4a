"""What is kept of the error that ended a program."""

from __future__ import annotations

import pytest

from perdure import Session, SessionFailed, program
from tests.runtime.support.scripted_world import World


def lookup(names: dict[str, int]) -> int:
    return names["x"]


async def test_type_line_and_traceback_of_an_error_are_on_record(world: World) -> None:
    @program
    async def looks(s: Session) -> int:
        return lookup({})

    view = await world.run(looks.bind())
    assert (view.status, view.error["type"], view.error["message"]) == ("failed", "KeyError", "'x'")
    line = lookup.__code__.co_firstlineno + 1
    assert view.error["where"] == f"{__file__}:{line} in lookup"
    assert 'return names["x"]' in view.error["traceback"]
    assert "in looks" in view.error["traceback"]
    with pytest.raises(SessionFailed, match=rf"KeyError: 'x' \(.*test_program_errors.py:{line} in lookup\)") as failed:
        await world.rt.result("s")
    assert isinstance(failed.value.__cause__, KeyError)
    world.verify()


@pytest.mark.databases("memory")
async def test_another_process_knows_the_record_and_has_no_cause(world: World) -> None:
    @program
    async def looks(s: Session) -> int:
        return lookup({})

    await world.run(looks.bind())
    world.rt.causes._errors.clear()
    with pytest.raises(SessionFailed, match="KeyError: 'x'") as failed:
        await world.rt.result("s")
    assert failed.value.__cause__ is None


@pytest.mark.databases("memory")
async def test_a_parent_learns_which_line_of_its_child_failed(world: World) -> None:
    @program
    async def looks(s: Session) -> int:
        return lookup({})

    @program
    async def begins(s: Session) -> str:
        try:
            await s.child(looks.bind())
            return "no error"
        except SessionFailed as error:
            return f"{error.message} caused by {type(error.__cause__).__name__}"

    told = (await world.run(begins.bind())).result
    assert "KeyError: 'x' (" in told
    assert told.endswith("caused by KeyError")


@pytest.mark.databases("memory")
async def test_a_traceback_is_bounded(world: World) -> None:
    def deep(n: int) -> int:
        if n == 0:
            raise ValueError("y" * 100_000)
        return deep(n - 1) if n % 2 else deep(n - 1) + 1

    @program
    async def digs(s: Session) -> int:
        return deep(200)

    error = (await world.run(digs.bind())).error
    assert len(error["traceback"]) <= 8001
    assert len(error["message"]) <= 4000


@pytest.mark.databases("memory")
async def test_only_the_last_few_causes_are_kept(world: World) -> None:
    @program
    async def looks(s: Session, n: int) -> int:
        return lookup({})

    for n in range(10):
        await world.run(looks.bind(n=n), f"s{n}")
    assert world.rt.causes.get((await world.rt.get("s1")).uid) is None
    assert world.rt.causes.get((await world.rt.get("s9")).uid) is not None
