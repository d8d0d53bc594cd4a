"""Another model for a session: recorded, used from the next model call on, and checked before it is recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import tool
from perdure.agent.model import OnText, Reply, Request
from perdure.errors import ConfigError, IllegalMove, ModelError
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls, lines

pytestmark = pytest.mark.databases("sqlite", "postgres")


def scripted(folder: Path, *turns: Any) -> str:
    """The name of a model that plays these turns."""
    path = folder / "other.json"
    path.write_text(json.dumps(turns))
    return f"scripted:{path}"


class Unknown:
    """A model whose provider does not know its name."""

    name = "anthropic:claude-sonet"

    def __init__(self, **details: Any) -> None:
        self.error = ModelError("anthropic:claude-sonet was not found.", **({"retry": False, "status": 404} | details))

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        raise self.error


async def test_new_model_answers_the_next_message(conversation: Conversation, tmp_path: Path) -> None:
    conversation.declare(["One.", "Two."])
    name = scripted(tmp_path, "", "From the other.")
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        changed = await runtime.set_model("talk", name, by="ada")
        assert (changed.model, changed.status) == (name, "waiting")
        (event,) = [one async for one in runtime.events("talk") if one.kind == "session.described"]
        assert (event.actor, event.body["rows"]) == ("ada", {"session": {"model": name}})
    async with open_runtime(conversation.target) as runtime:  # another process
        await runtime.send("talk", "again")
        await runtime.run("talk")
        said = (await lines(runtime))[-1]
        assert (said["content"], said["model"]) == ("From the other.", name)
        assert (await runtime.state_at("talk")).session["model"] == name


async def test_session_with_an_unknown_model_waits_and_answers_after_a_change(
    conversation: Conversation, tmp_path: Path
) -> None:
    conversation.declare([], model=Unknown())
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        (waits,) = session.waits
        assert "Change the model with `perdure resume talk --model NAME`." in waits.detail["why"]
        changed = await runtime.set_model("talk", scripted(tmp_path, "Now I can."))
        assert changed.status == "ready"
        session = await runtime.run("talk")
        assert (await lines(runtime))[-1]["content"] == "Now I can."
        assert [(one.kind, one.detail) for one in session.waits] == [("input", None)]


async def test_change_ends_the_delay_that_a_model_asked_for(conversation: Conversation, tmp_path: Path) -> None:
    conversation.declare([], model=Unknown(retry=True, retry_after=3600.0, status=429))
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        assert [one.kind for one in session.waits] == ["timer"]
        await runtime.set_model("talk", scripted(tmp_path, "At once."))
        session = await runtime.run("talk")
        assert (await lines(runtime))[-1]["content"] == "At once."
        assert [one.kind for one in session.waits] == ["input"]


async def test_change_during_a_run_counts_for_the_next_model_call(conversation: Conversation, tmp_path: Path) -> None:
    name = scripted(tmp_path, "", "From the other.")

    @tool(replay="pure", name="change_model")
    async def change_model() -> str:
        """Stands for a person who changes the model while a tool runs."""
        await runtime.set_model("talk", name)
        return "changed"

    conversation.declare([calls(("change_model", {})), "From the first."], [change_model])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        assert (await lines(runtime))[-1]["content"] == "From the other."


@pytest.mark.parametrize(
    "name", ["claude-sonnet-5-5", "", "anthropic:", "anthropic:claude-x", "scripted:/missing.json"]
)
async def test_model_that_cannot_be_used_is_not_recorded(
    conversation: Conversation, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    conversation.declare(["One."])
    async with open_runtime(conversation.target) as runtime:
        before = await conversation.start(runtime)
        with pytest.raises(ConfigError):
            await runtime.set_model("talk", name)
        assert await runtime.get("talk") == before


async def test_branch_keeps_the_chosen_model(conversation: Conversation, tmp_path: Path) -> None:
    conversation.declare(["One."])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        name = scripted(tmp_path, "", "Two.")
        await runtime.set_model("talk", name)
        assert (await runtime.fork("talk", id="branch")).model == name


async def test_program_without_a_model_refuses_the_change(conversation: Conversation, tmp_path: Path) -> None:
    @perdure.program
    async def modelless(s: perdure.Session) -> int:
        return 1

    async with open_runtime(conversation.target) as runtime:
        await runtime.start(modelless.bind(), id="plain")
        with pytest.raises(ConfigError, match="has no model"):
            await runtime.set_model("plain", scripted(tmp_path, "x"))


async def test_finished_session_refuses_the_change(conversation: Conversation, tmp_path: Path) -> None:
    conversation.declare(["One."])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime, once=True)
        with pytest.raises(IllegalMove, match="is done"):
            await runtime.set_model("talk", scripted(tmp_path, "x"))


class Reports:
    """A model whose provider reports a dated name."""

    name = "anthropic:claude-sonnet"

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        return Reply(f"Reply {request.number}.", model="claude-sonnet-20260901")


async def test_name_that_a_provider_reports_is_no_change_of_the_model(conversation: Conversation) -> None:
    conversation.declare([], model=Reports())
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
    async with open_runtime(conversation.target) as runtime:  # another process catches up
        await runtime.send("talk", "again")
        await runtime.run("talk")
        said = await lines(runtime)
    assert [one["role"] for one in said] == ["user", "assistant", "user", "assistant"]
    assert said[-1]["model"] == "claude-sonnet-20260901"
