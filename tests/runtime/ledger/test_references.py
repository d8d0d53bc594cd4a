"""`call.reference(...)`: a tool names what it did in the outside system."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Call, NotDone, Session, program, tool
from tests.runtime.support.scripted_world import World


@program
async def posts(s: Session) -> int:
    from perdure.runtime.definitions.tool import TOOLS

    return int(await s.do(TOOLS["post"], n=1))


@pytest.mark.parametrize("replay", ["escalate", "pure"])
@pytest.mark.parametrize("is_async", [False, True])
async def test_the_reference_is_stored_with_the_acknowledgement(world: World, replay: Any, is_async: bool) -> None:
    if is_async:

        @tool(replay=replay, name="post")
        async def post(call: Call, n: int) -> int:
            call.reference("http://outside/1")
            call.reference("http://outside/2")
            return n
    else:

        @tool(replay=replay, name="post")
        def post(call: Call, n: int) -> int:
            call.reference("http://outside/1")
            call.reference("http://outside/2")
            return n

    assert (await world.run(posts.bind())).result == 1
    assert (await world.effect()).reference == "http://outside/2"
    world.verify()


async def test_a_person_sees_the_reference_of_an_unknown_outcome(world: World) -> None:
    @tool
    def post(call: Call, n: int) -> int:
        call.reference("order-7")
        raise OSError("the line was cut")

    view = await world.run(posts.bind())
    effect = await world.effect()
    assert ([one.kind for one in view.waits], effect.state, effect.reference) == (["doubt"], "dispatched", "order-7")
    await world.rt.settle(effect.id, "happened", by="ada", because="it is there", result=1)
    assert (await world.again()).result == 1
    assert (await world.effect()).reference == "order-7"
    world.verify()


@pytest.mark.databases("memory")
async def test_the_reference_of_a_failed_attempt_is_not_that_of_the_next(world: World) -> None:
    @tool(retry=2)
    def post(call: Call, n: int) -> int:
        if call.attempt == 1:
            call.reference("order-7")
            raise NotDone("refused")
        return n

    assert (await world.run(posts.bind())).result == 1
    assert (await world.effect()).reference is None


class Hostile:
    def __str__(self) -> str:
        raise ValueError("no")


@pytest.mark.databases("memory")
@pytest.mark.parametrize("given", [Hostile(), "half a character \ud800 and \0", "x" * 100_000, 7])
async def test_an_invalid_reference_never_makes_an_outcome_unknown(world: World, given: object) -> None:
    @tool
    def post(call: Call, n: int) -> int:
        call.reference(given)  # type: ignore[arg-type]
        return n

    assert (await world.run(posts.bind())).result == 1
    reference = (await world.effect()).reference
    assert reference is not None
    assert len(reference) <= 2000
