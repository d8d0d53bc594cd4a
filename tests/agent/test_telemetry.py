"""What OpenTelemetry is told about an agent: its run, its model calls and its tool calls."""

from __future__ import annotations

import pytest

from perdure import tool
from perdure.runtime.telemetry import hook
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls
from tests.runtime.support.telemetry import Seen, attributes


@pytest.mark.databases("sqlite", "postgres")
async def test_agent_reports_model_and_tool_calls_by_convention(conversation: Conversation) -> None:
    @tool(replay="idempotent")
    def shout(text: str) -> str:
        return text.upper()

    seen = Seen()
    try:
        usage = {"tokens_in": 12, "tokens_out": 3}
        conversation.declare([calls(("shout", {"text": "secret"})) | {"usage": usage}, "Done."], [shout])
        async with open_runtime(conversation.target) as runtime:
            view = await conversation.start(runtime, once=True)
    finally:
        hook.install(None)
    (run,), (call,), chats = seen.of("invoke_agent tested"), seen.of("execute_tool shout"), seen.of("chat ")
    assert {attributes(one)["gen_ai.conversation.id"] for one in seen.spans} == {view.uid}
    assert (attributes(run)["gen_ai.agent.name"], attributes(call)["gen_ai.tool.name"]) == ("tested", "shout")
    assert [attributes(one)["gen_ai.operation.name"] for one in chats] == ["chat", "chat"]
    assert attributes(chats[0])["gen_ai.request.model"] == "scripted"
    assert [attributes(one)["gen_ai.response.finish_reasons"] for one in chats] == [("calls",), ("end",)]
    assert {point.attributes["gen_ai.token.type"] for point in seen.points("gen_ai.client.token.usage")} == {
        "input", "output",
    }  # fmt: skip
    assert "secret" not in "".join(one.to_json() for one in seen.spans)
