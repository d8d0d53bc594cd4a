"""Budgets of models: cost, tokens and turns are summed over sessions, and a session that has reached one waits."""

from __future__ import annotations

import pytest

from perdure.agent.model import OnText, Reply, Request, Usage
from perdure.runtime.runtime import Runtime
from perdure.runtime.runtime import open as open_runtime
from tests.agent.support.conversation import Conversation, calls
from tests.agent.test_permissions import posts

pytestmark = [pytest.mark.anyio]
SCRIPT = [calls(("post_note", {"text": "a"})), calls(("post_note", {"text": "b"})), "End."]


async def set_budget(runtime: Runtime, of: str, limit: float, more: str = "", per: str = "session") -> None:
    source = f'default = "allow"\n[[budget]]\nname = "b"\nof = "{of}"\nlimit = {limit}\nper = "{per}"\n{more}\n'
    await runtime.set_policy(source, because="a test")


async def test_turns_are_counted_and_a_raised_budget_continues(conversation: Conversation) -> None:
    conversation.declare(SCRIPT, [posts()], policy=lambda _: "allow")
    async with open_runtime(conversation.target) as runtime:
        await set_budget(runtime, "turns", 2)
        view = await conversation.start(runtime)
        assert ([one.ref for one in view.waits], len(conversation.model.requests)) == (["budget:b"], 2)
        await set_budget(runtime, "turns", 3)
        view = await runtime.run(view.id)
        assert ([one.kind for one in view.waits], len(conversation.model.requests)) == (["input"], 3)


async def test_a_model_budget_that_stops_ends_the_session(conversation: Conversation) -> None:
    conversation.declare(SCRIPT, [posts()], policy=lambda _: "allow")
    async with open_runtime(conversation.target) as runtime:
        await set_budget(runtime, "turns", 1, 'answer = "stop"')
        view = await conversation.start(runtime)
        assert (view.status, len(conversation.model.requests)) == ("failed", 1)
        assert "The budget b is used up: 1 of 1 turns per session." in view.error["message"]
        stopped = [one async for one in runtime.effects(session=view.id, state="refused")]
        assert [(one.tool, one.rule) for one in stopped] == [("perdure.model_call", "budget:b")]


class Priced:
    """A model whose answers cost half a dollar."""

    name = "priced"

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        return Reply("End.", usage=Usage(tokens_in=60, tokens_out=40, cost_micros=500_000))


@pytest.mark.parametrize(("of", "limit"), [("cost", 0.5), ("tokens", 100)])
async def test_cost_and_tokens_of_an_owner_are_summed_over_sessions(
    conversation: Conversation, of: str, limit: float
) -> None:
    agent = conversation.declare([], model=Priced())
    async with open_runtime(conversation.target) as runtime:
        await set_budget(runtime, of, limit, per="owner-day")
        first = await runtime.start(agent.bind("x", True), id="first", owner="ada")
        assert (await runtime.run(first.id)).status == "done"
        view = await conversation.start(runtime, owner="ada")
        assert [one.ref for one in view.waits] == ["budget:b"]
        other = await runtime.start(agent.bind("y", True), id="other", owner="grace")
        assert (await runtime.run(other.id)).status == "done"
