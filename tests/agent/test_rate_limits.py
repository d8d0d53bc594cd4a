"""Limits of model providers: agents wait for them before a request, together with all other workers."""

from __future__ import annotations

import asyncio

import pytest

import perdure
from perdure.agent.model import OnText, Reply, Request, Usage
from perdure.errors import ModelError
from perdure.store.moves import rate_limit
from perdure.testing import ManualClock
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation

pytestmark = pytest.mark.databases("sqlite", "postgres")


class CountingModel:
    """A model that counts its requests, by the time of the store's clock, and refuses the first ones."""

    name = "counting:model"

    def __init__(self, clock: ManualClock, refusals: int = 0, status: int = 429) -> None:
        self.at: list[int] = []
        self._clock, self._refusals, self._status = clock, refusals, status

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        self.at.append(self._clock.now())
        if len(self.at) <= self._refusals:
            raise ModelError("Too many requests.", retry_after=120.0, status=self._status)
        return Reply(f"answer {len(self.at)}", usage=Usage(700, 50))


async def limits(runtime: perdure.Runtime) -> list[tuple[str, int | None, int | None]]:
    return [(one.name, one.requests, one.tokens) async for one in runtime.rate_limits()]


async def test_a_request_beyond_the_limit_waits_durably_and_is_sent_once(conversation: Conversation) -> None:
    clock = ManualClock()
    model = CountingModel(clock)
    conversation.declare([], model=model)
    async with open_runtime(conversation.target, clock=clock) as runtime:
        await runtime.set_rate_limit("counting", requests=1)
        assert await limits(runtime) == [("counting", 1, None)]
        await conversation.start(runtime)
        await runtime.send("talk", "more")
        view = await runtime.run("talk")
        (waiting,) = [one for one in view.waits if one.kind == "timer"]
        assert (waiting.ref, len(model.at)) == ("limit", 1)
        assert "counting" in (waiting.detail or {})["why"]
    clock.advance(seconds=61)
    async with open_runtime(conversation.target, clock=clock) as runtime:
        view = await runtime.run("talk")
        assert [one.kind for one in view.waits] == ["input"]
        assert len(model.at) == 2
        (row,) = [one async for one in runtime.rate_limits()]
        assert row.requests_at is not None
        assert row.requests_at - model.at[0] == 2 * rate_limit.MINUTE  # two reservations for two requests


async def test_a_reservation_that_was_missed_is_made_again(conversation: Conversation) -> None:
    clock = ManualClock()
    model = CountingModel(clock)
    conversation.declare([], model=model)
    async with open_runtime(conversation.target, clock=clock) as runtime:
        await runtime.set_rate_limit("counting", requests=1)
        await conversation.start(runtime)
        await runtime.send("talk", "more")
        await runtime.run("talk")
        clock.advance(hours=1)
        await runtime.run("talk")
        (row,) = [one async for one in runtime.rate_limits()]
    assert row.requests_at == model.at[-1] + rate_limit.MINUTE


@pytest.mark.parametrize("status", [429, 529])
async def test_a_refusal_of_the_provider_delays_other_sessions(status: int, conversation: Conversation) -> None:
    clock = ManualClock()
    model = CountingModel(clock, refusals=1, status=status)
    agent = conversation.declare([], model=model)
    async with open_runtime(conversation.target, clock=clock) as runtime:
        await conversation.start(runtime)
        other = await runtime.start(agent.bind("begin"), id="other")
        view = await runtime.run(other.id)
        assert ([one.ref for one in view.waits], len(model.at)) == (["limit"], 1)
        clock.advance(seconds=121)
        assert [one.kind for one in (await runtime.run(other.id)).waits] == ["input"]
        assert [one.kind for one in (await runtime.run("talk")).waits] == ["input"]


async def test_tokens_that_were_used_replace_the_estimate(conversation: Conversation) -> None:
    clock = ManualClock()
    conversation.declare([], model=CountingModel(clock))
    async with open_runtime(conversation.target, clock=clock) as runtime:
        await runtime.set_rate_limit("counting:model", tokens=100_000)
        await conversation.start(runtime)
        (row,) = [one async for one in runtime.rate_limits()]
    used = rate_limit.Rate.of(100_000).takes(750)
    assert row.tokens_at is not None
    assert abs(row.tokens_at - clock.now() - used) <= 2


async def test_a_wait_for_a_limit_can_be_interrupted(conversation: Conversation) -> None:
    """The wait is too short for a durable one, and too long for this test."""
    clock = ManualClock()
    model = CountingModel(clock)
    conversation.declare([], model=model)
    async with open_runtime(conversation.target, clock=clock) as runtime:
        await runtime.set_rate_limit("counting", requests=3)
        await conversation.start(runtime)
        await runtime.send("talk", "more")
        running = asyncio.ensure_future(runtime.run("talk"))
        row = None
        while row is None or row.requests_at != clock.now() + 40_000_000:
            await asyncio.sleep(0.01)
            (row,) = [one async for one in runtime.rate_limits()]
        await runtime.interrupt("talk", by="ada")
        view = await running
        assert ([one.kind for one in view.waits], len(model.at)) == (["input"], 1)


async def test_a_wait_beyond_the_time_limit_of_the_agent_ends_the_turn(conversation: Conversation) -> None:
    clock = ManualClock()
    model = CountingModel(clock)
    conversation.declare([], model=model, limits={"time": "30s"})
    async with open_runtime(conversation.target, clock=clock) as runtime:
        await runtime.set_rate_limit("counting", requests=1)
        await conversation.start(runtime)
        await runtime.send("talk", "more")
        view = await runtime.run("talk")
    assert [one.kind for one in view.waits] == ["input"]
    assert "the agent may wait" in (view.waits[0].detail or {})["why"]
