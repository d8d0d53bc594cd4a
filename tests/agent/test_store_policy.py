"""An agent under the policy of the store: its commands, its files, and the calls of its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from perdure import ConfigError, Intent, tool
from perdure.runtime.runtime import Runtime, SessionView
from perdure.runtime.runtime import open as open_runtime
from tests.agent.support.conversation import Conversation, calls

pytestmark = [pytest.mark.anyio, pytest.mark.databases("sqlite", "postgres")]

MODEL = """
default = "allow"

[[rule]]
name = "models"
answer = "ask"
reason = "Models cost money."
action = "model"
"""


def kinds(session: SessionView) -> list[str]:
    return [one.kind for one in session.waits]


async def approve(runtime: Runtime, session: SessionView, **more: Any) -> SessionView:
    (asked,) = [one for one in session.waits if one.kind == "approval"]
    await runtime.approve(asked.id, by="ada", **more)
    return await runtime.run(session.id)


async def test_a_rule_on_models_asks_before_each_call(conversation: Conversation) -> None:
    conversation.declare(["One.", "Two."], [])
    async with open_runtime(conversation.target) as runtime:
        await runtime.set_policy(MODEL, because="a test")
        session = await conversation.start(runtime)
        assert (kinds(session), len(conversation.model.requests)) == (["approval"], 0)
        session = await approve(runtime, session)
        assert (kinds(session), len(conversation.model.requests)) == (["input"], 1)
        await runtime.send("talk", "again")
        session = await runtime.run("talk")
        assert (kinds(session), len(conversation.model.requests)) == (["approval"], 1)
        effects = [one async for one in runtime.effects(session="talk", tool="model")]
        assert [(one.rule, one.policy_version, one.reach) for one in effects] == [("models", "1", "model")]


async def test_an_approval_from_elsewhere_covers_the_model_call_after_a_resume(conversation: Conversation) -> None:
    """A note about the decision would be a new line, and the call after it another one that is asked about again."""
    conversation.declare(["One.", "Two."], [])
    async with open_runtime(conversation.target) as runtime:
        await runtime.set_policy(MODEL, because="a test")
        await approve(runtime, await conversation.start(runtime))
        await runtime.send("talk", "again")
        (asked,) = (await runtime.run("talk")).waits
    async with open_runtime(conversation.target) as elsewhere:
        await elsewhere.approve(asked.id, by="ada")
    async with open_runtime(conversation.target) as another:
        assert (kinds(await another.run("talk")), len(conversation.model.requests)) == (["input"], 2)


@pytest.mark.parametrize("default", ["ask", "deny"])
async def test_the_default_for_tools_asks_nothing_about_a_model(conversation: Conversation, default: str) -> None:
    """The approval of a model call was judged again as a call of a tool: it was denied, or asked about without end."""
    conversation.declare(["One."], [])
    async with open_runtime(conversation.target) as runtime:
        await runtime.set_policy(MODEL.replace('"allow"', f'"{default}"', 1), because="a test")
        session = await approve(runtime, await conversation.start(runtime))
        assert (kinds(session), len(conversation.model.requests)) == (["input"], 1)
        (asked,) = [one async for one in runtime.effects(session="talk", tool="perdure.model_call")]
        explained = await runtime.explain_policy(asked.id)
        assert (explained.answer, explained.rule, explained.facts.action) == ("ask", "models", "model")


async def test_an_answer_for_the_session_covers_later_calls_of_the_model(conversation: Conversation) -> None:
    conversation.declare(["One.", "Two."], [])
    async with open_runtime(conversation.target) as runtime:
        await runtime.set_policy(MODEL, because="a test")
        await approve(runtime, await conversation.start(runtime), remember="tool")
        await runtime.send("talk", "again")
        assert (kinds(await runtime.run("talk")), len(conversation.model.requests)) == (["input"], 2)


async def test_a_denied_model_is_not_called_and_the_reason_is_shown(conversation: Conversation) -> None:
    conversation.declare(["One."], [])
    async with open_runtime(conversation.target) as runtime:
        await runtime.set_policy(MODEL.replace('"ask"', '"deny"'), because="a test")
        session = await conversation.start(runtime)
        assert (kinds(session), len(conversation.model.requests)) == (["input"], 0)
        assert "Models cost money." in str(session.waits[0].detail)


async def test_a_frozen_policy_stops_the_model_too(conversation: Conversation) -> None:
    conversation.declare(["One."], [])
    async with open_runtime(conversation.target) as runtime:
        await runtime.freeze_policy(because="an incident")
        session = await conversation.start(runtime)
        assert (kinds(session), len(conversation.model.requests)) == (["policy"], 0)
        await runtime.thaw_policy()
        assert kinds(await runtime.run("talk")) == ["input"]


LINKS = """
default = "allow"

[[rule]]
name = "deploy"
answer = "deny"
reason = "Deployments are changed by people."
path = "deploy/**"
"""


@pytest.mark.databases("sqlite")
async def test_a_path_is_judged_where_its_links_lead(conversation: Conversation, folder: Path) -> None:
    @tool(replay="idempotent", reach="workspace")
    def touch(path: str) -> str:
        return path

    (folder / "deploy").mkdir()
    (folder / "innocent").symlink_to("deploy")
    conversation.declare(
        [calls(("touch", {"path": "innocent/app.yml"}), ("touch", {"path": "readme"})), "End."], [touch]
    )
    async with open_runtime(conversation.target) as runtime:
        await runtime.set_policy(LINKS, because="a test")
        await conversation.start(runtime, repository=folder)
        effects = {one.intent["path"]: one async for one in runtime.effects(session="talk", tool="touch")}
    assert (effects["innocent/app.yml"].state, effects["innocent/app.yml"].rule) == ("refused", "deploy")
    assert (effects["readme"].state, effects["readme"].rule) == ("acknowledged", "default")


class Watchful:
    """A policy in code that declares which actions it is asked about."""

    def __init__(self, *actions: str) -> None:
        self.actions = actions
        self.seen: list[tuple[str, str]] = []

    def __call__(self, intent: Intent) -> Literal["allow", "ask", "deny"]:
        self.seen.append((intent.action, intent.tool))
        return "ask" if intent.action == "model" else "allow"


async def test_a_policy_in_code_is_asked_about_models_if_it_declares_them(conversation: Conversation) -> None:
    conversation.declare(["One.", "Two."], [])
    declared, silent = Watchful("do", "model"), Watchful("do")
    async with open_runtime(conversation.target, policy=declared) as runtime:
        session = await conversation.start(runtime)
        assert (kinds(session), len(conversation.model.requests)) == (["approval"], 0)
        session = await approve(runtime, session)
        assert (kinds(session), len(conversation.model.requests)) == (["input"], 1)
        assert set(declared.seen) == {("model", "model")}
    async with open_runtime(conversation.target, policy=silent) as runtime:
        await runtime.send("talk", "again")
        assert kinds(await runtime.run("talk")) == ["input"]
    assert (silent.seen, len(conversation.model.requests)) == ([], 2)


async def test_a_policy_with_an_unknown_action_is_refused() -> None:
    with pytest.raises(ConfigError, match="no action 'models'"):
        open_runtime("memory:", policy=Watchful("models"))
