"""The limits of an agent: time, cost and what sub-agents use."""

from __future__ import annotations

import pytest

from perdure import Limits, tool
from perdure.agent.model import OnText, Reply, Request, Usage
from perdure.testing import ManualClock
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls
from tests.agent.support.summaries import SummaryModel, poster, state

pytestmark = pytest.mark.databases("memory")


async def test_working_time_counts_across_waits(conversation: Conversation) -> None:
    clock = ManualClock()

    @tool(replay="idempotent")
    def work(n: int) -> str:
        clock.advance(seconds=40 * 60)
        return "worked"

    script = [calls(("work", {"n": n})) for n in range(5)]
    conversation.declare([*script, "End."], [work], policy=lambda _: "ask", limits=Limits(time="1h"))
    async with open_runtime(conversation.target, clock=clock, lease="100h") as runtime:
        session = await conversation.start(runtime)
        while session.waits[0].kind == "approval":
            await runtime.approve(session.waits[0].id, by="ada", because="yes")
            session = await runtime.run("talk")
        assert (session.waits[0].detail or {}).get("about") == "limit"


async def test_usage_of_a_sub_agent_counts_for_its_parent(conversation: Conversation) -> None:
    class Both:
        name = "scripted"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            if request.turns[0].text == "a part":
                return Reply("Part done.", usage=Usage(1000, 1000, 0))
            return await conversation.model.reply(request, on_text)

    script = [calls(("delegate", {"task": "a part"})) for _ in range(4)]
    agent = conversation.declare([*script, "End."], ["delegate"], limits=Limits(tokens=1500))
    agent.model = Both()
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        children = [one async for one in runtime.sessions() if one.parent_uid == session.uid]
        assert len(children) == 1


async def test_waiting_for_a_person_is_not_working_time(conversation: Conversation) -> None:
    clock = ManualClock()
    conversation.declare(
        [calls(("post", {"n": 1})), "Done."], [poster()], policy=lambda _: "ask", limits=Limits(time="1h")
    )
    async with open_runtime(conversation.target, clock=clock) as runtime:
        session = await conversation.start(runtime, once=True)
        clock.advance(hours=8)
        await runtime.approve(session.waits[0].id, by="ada", because="good morning")
        view = await runtime.run("talk")
        assert (view.status, view.result) == ("done", "Done."), view.error


async def test_the_cost_of_a_summary_counts_for_the_limits(conversation: Conversation) -> None:
    agent = conversation.declare([calls(("post", {"n": n})) for n in range(8)] + ["End."], [poster()])
    agent.model, agent.context = SummaryModel(conversation, ["Things were posted."], Usage(1000, 1000, 500_000)), 600
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        assert session.cost_micros > 0
        assert (await state(runtime)).cost_micros == session.cost_micros
