"""`s.step(..., retries=, backoff=)`: a failed attempt runs again, and the attempts survive the process."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import ConfigError, Session, StepFailed, program
from tests.runtime.support.scripted_world import World, die

MEMORY = pytest.mark.databases("memory")
DURABLE = pytest.mark.databases("sqlite", "files", "postgres")


class Flaky:
    """A function that raises as often as it is told, and may die with its process."""

    def __init__(self, errors: int, dies_at: int = 0) -> None:
        self.errors = errors
        self.dies_at = dies_at
        self.calls = 0

    def read(self, n: int) -> int:
        self.calls += 1
        if self.calls == self.dies_at:
            die()
        if self.calls <= self.errors:
            raise OSError(f"error {self.calls}")
        return n

    async def fetch(self, n: int) -> int:
        return self.read(n)


def reading(flaky: Flaky, *, asynchronous: bool = False, **options: Any) -> Any:
    @program
    async def reads(s: Session) -> int:
        function: Any = flaky.fetch if asynchronous else flaky.read
        result: int = await s.step("read", function, 7, **options)
        return result

    return reads.bind()


@MEMORY
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_failed_step_runs_again_until_it_succeeds(world: World, asynchronous: bool) -> None:
    flaky = Flaky(2)
    done = await world.run(reading(flaky, asynchronous=asynchronous, retries=3, backoff=0))
    assert (done.result, flaky.calls) == (7, 3)
    world.verify()


@MEMORY
async def test_the_error_of_the_last_attempt_is_recorded(world: World) -> None:
    flaky = Flaky(9)

    @program
    async def reads(s: Session) -> str:
        try:
            await s.step("read", flaky.read, 7, retries=2, backoff=0)
        except StepFailed as failed:
            await s.ask("Continue?")
            return failed.message
        return ""

    view = await world.run(reads.bind())
    await world.rt.answer(view.waits[0].id, "yes")
    done = await world.again()
    assert "error 3" in str(done.result)
    assert flaky.calls == 3  # the second run found the error on record


@DURABLE
async def test_a_long_backoff_parks_the_session_and_doubles(world: World) -> None:
    flaky = Flaky(2)
    first = await world.run(reading(flaky, retries=2, backoff="1h"))
    assert (first.status, [one.kind for one in first.waits], flaky.calls) == ("waiting", ["timer"], 1)
    assert "Attempt 1 of 3 of step read failed. OSError: error 1" in str(first.waits[0].detail)
    assert first.waits[0].due_at == world.clock.now() + 3600 * 1_000_000
    world.crash()
    assert (await world.again()).status == "waiting"
    assert flaky.calls == 1
    world.clock.advance(seconds=3600)
    await world.rt.driver.fire(first.waits[0])
    second = await world.again()
    assert second.waits[0].due_at == world.clock.now() + 2 * 3600 * 1_000_000
    world.clock.advance(seconds=7200)
    await world.rt.driver.fire(second.waits[0])
    assert (await world.again()).result == 7
    assert flaky.calls == 3


@DURABLE
async def test_a_kill_in_an_attempt_does_not_reset_the_count(world: World) -> None:
    flaky = Flaky(9, dies_at=2)
    await world.dies(reading(flaky, retries=2, backoff=0))
    done = await world.again()
    assert done.status == "failed"
    assert flaky.calls == 4  # the attempt of which nothing was recorded ran again, and one more was left
    world.verify()


@MEMORY
async def test_retries_do_not_change_the_identity_of_a_step(world: World) -> None:
    flaky = Flaky(0)

    @program
    async def reads(s: Session, retries: int) -> int:
        options: Any = {"retries": retries} if retries else {}
        result: int = await s.step("read", flaky.read, 7, **options)
        return result

    await world.run(reads.bind(0), "plain")
    await world.run(reads.bind(3), "retried")
    digests = [
        {line.body["step"]["name"]: line.body["outcome"]}
        for id in ("plain", "retried")
        async for line in world.rt.events(id)
        if line.kind == "step.recorded"
    ]
    assert digests[0] == digests[1]


@MEMORY
async def test_a_function_with_its_own_retries_gets_them(world: World) -> None:
    def fetch(retries: int, backoff: str) -> str:
        return f"{retries} {backoff}"

    @program
    async def fetches(s: Session) -> str:
        return await s.step("fetch", fetch, retries=3, backoff="x")

    assert (await world.run(fetches.bind())).result == "3 x"


@MEMORY
@pytest.mark.parametrize("options", [{"retries": -1}, {"retries": True}, {"retries": 1, "backoff": "soon"}])
async def test_wrong_options_are_refused_when_the_step_is_called(world: World, options: dict[str, Any]) -> None:
    flaky = Flaky(0)
    ended = await world.run(reading(flaky, **options))
    assert (ended.status, ended.error["code"]) == ("failed", ConfigError.code)
    assert flaky.calls == 0
