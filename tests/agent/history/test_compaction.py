"""Summaries of a long transcript."""

from __future__ import annotations

import pytest

from perdure import tool
from perdure.errors import ModelError
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls
from tests.agent.support.summaries import LONG, SummaryModel, poster

pytestmark = pytest.mark.databases("memory")


async def test_a_summary_lists_effects_after_many_reads(conversation: Conversation) -> None:
    @tool(replay="pure")
    def look(n: int) -> str:
        return f"saw {n} {LONG}"

    agent = conversation.declare(
        [calls(("post", {"n": 1})), *(calls(("look", {"n": n})) for n in range(40)), "End."], [poster(), look]
    )
    agent.model, agent.context = SummaryModel(conversation, ["Things were looked at."]), 600
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        assert '- acknowledged: post {"n":1}' in conversation.turns_shown()[0].text


async def test_a_failed_summary_keeps_the_previous_one(conversation: Conversation) -> None:
    agent = conversation.declare([calls(("post", {"n": n})) for n in range(30)] + ["End."], [poster()])
    agent.model = SummaryModel(conversation, ["He wants seven posts.", ModelError("The model is away.", retry=False)])
    agent.context = 600
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        shown = conversation.turns_shown()[0].text
        assert "No summary could be made" in shown
        assert "He wants seven posts." in shown
