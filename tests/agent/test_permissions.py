"""What a person allows for the rest of a session, with an approval: an exemption for one exact call, or for a tool."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from perdure import Gate, tool
from perdure.domain.approval import ApprovalDecision
from perdure.domain.exemption import AGENT, Exemption, PermissionWidth
from perdure.errors import ConfigError, IllegalMove
from perdure.runtime.definitions.tool import Tool
from perdure.runtime.runtime import Runtime, SessionView
from perdure.runtime.runtime import open as open_runtime
from perdure.store.moves import vote
from tests.agent.support.conversation import Conversation, calls


def posts() -> Tool[..., Any]:
    @tool(replay="idempotent")
    def post_note(text: str) -> str:
        return f"posted {text}"

    return post_note


def asked(session: SessionView) -> list[str]:
    return [one.detail["intent"]["text"] for one in session.waits if one.kind == "approval"]


async def approve(runtime: Runtime, session: SessionView, remember: Literal["once", "this", "tool"]) -> SessionView:
    await runtime.approve(session.waits[0].id, by="ada", remember=remember)
    return await runtime.run(session.id)


async def granted(runtime: Runtime) -> list[Exemption]:
    return [one async for one in runtime.exemptions(session="talk")]


SCRIPT = [
    calls(("post_note", {"text": "a"})),
    calls(("post_note", {"text": "a"})),
    calls(("post_note", {"text": "b"})),
    calls(("post_note", {"text": "b"})),
    "End.",
]


@pytest.mark.parametrize(("remember", "questions"), [("once", "aabb"), ("this", "ab"), ("tool", "a")])
async def test_width_of_an_approval_decides_what_is_asked_again(
    conversation: Conversation, remember: Literal["once", "this", "tool"], questions: str
) -> None:
    conversation.declare(SCRIPT, [posts()], policy=lambda _: "ask")
    seen = ""
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        while found := asked(session):
            seen += found[0]
            session = await approve(runtime, session, remember)
        lifted = await granted(runtime)
        used = [one.exemption_id async for one in runtime.effects(session="talk", tool="post_note")]
    assert seen == questions
    assert len(lifted) == {"once": 0, "this": 2, "tool": 1}[remember]
    assert {(one.rule, one.tool, one.granted_by, one.session_uid) for one in lifted} <= {
        (AGENT, "post_note", "ada", session.uid)
    }
    assert {one.intent_digest is not None for one in lifted} == {"once": set(), "this": {True}, "tool": {False}}[
        remember
    ]
    assert sum(one.used for one in lifted) == sum(one is not None for one in used) == 4 - len(questions)
    assert conversation.tool_results() == [f"done: posted {text}" for text in "aabb"]


async def test_permission_does_not_reach_a_branch(conversation: Conversation) -> None:
    conversation.declare(SCRIPT, [posts()], policy=lambda _: "ask")
    async with open_runtime(conversation.target) as runtime:
        session = await approve(runtime, await conversation.start(runtime), "this")
        assert asked(session) == ["b"]
        branch = await runtime.fork("talk", at=3, id="branch")
        assert asked(await runtime.run(branch.id)) == ["a"]


@pytest.mark.databases("sqlite", "postgres")
async def test_an_exemption_of_a_removed_session_stays_on_record(conversation: Conversation) -> None:
    conversation.declare([*SCRIPT[:1], "End."], [posts()], policy=lambda _: "ask")
    async with open_runtime(conversation.target) as runtime:
        await approve(runtime, await conversation.start(runtime), "tool")
        await runtime.remove("talk", because="a test")
        assert [one.tool async for one in runtime.exemptions()] == ["post_note"]


async def test_permission_covers_calls_that_wait_already(conversation: Conversation) -> None:
    both = calls(*(("post_note", {"text": text}) for text in "aba"))
    conversation.declare([both, "End."], [posts()], policy=lambda _: "ask")
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        assert sorted(asked(session)) == ["a", "a", "b"]
        first = next(one for one in session.waits if one.detail["intent"]["text"] == "a")
        await runtime.approve(first.id, by="ada", remember="this")
        session = await runtime.get("talk")
        assert asked(session) == ["b"]
        covered = [one async for one in runtime.approvals(session="talk", decision="approved")]
        assert len(covered) == 2
        assert len({one.effect_id for one in covered}) == 2  # each effect has an approval of its own


@pytest.mark.parametrize("gate", [Gate("agent", requester_may_decide=True), Gate("merge", requester_may_decide=True)])
async def test_gate_of_a_tool_is_never_lifted(conversation: Conversation, gate: Gate) -> None:
    @tool(replay="idempotent", gate=gate)
    def post_note(text: str) -> str:
        return text

    conversation.declare(SCRIPT, [post_note], policy=lambda _: "ask")
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        for remember in ("this", "tool"):
            with pytest.raises(ConfigError, match="asks every time"):
                await approve(runtime, session, remember)
        assert asked(await approve(runtime, session, "once")) == ["a"]


@pytest.mark.databases("sqlite", "postgres")
async def test_policy_of_the_runtime_is_never_lifted(conversation: Conversation) -> None:
    conversation.declare([*SCRIPT, calls(("post_note", {"text": "c"})), "End."], [posts()], policy=lambda _: "ask")
    async with open_runtime(conversation.target) as runtime:
        session = await approve(runtime, await conversation.start(runtime), "tool")
        assert asked(session) == []
    async with open_runtime(conversation.target, policy=lambda _: "ask") as runtime:
        await runtime.send("talk", "again")
        session = await runtime.run("talk")
        assert [one.detail["gate"] for one in session.waits] == ["policy"]
        with pytest.raises(ConfigError, match="asks every time"):
            await approve(runtime, session, "tool")


async def test_decided_approval_cannot_be_widened(conversation: Conversation) -> None:
    conversation.declare(SCRIPT, [posts()], policy=lambda _: "ask")
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        id = session.waits[0].id
        await runtime.approve(id, by="ada")
        assert (await runtime.approve(id, by="ada")).decision == "approved"
        with pytest.raises(IllegalMove, match="approved already"):
            await runtime.approve(id, by="ada", remember="tool")
        assert await granted(runtime) == []
        with pytest.raises(ConfigError, match="once, this, tool"):
            await runtime.approve(id, by="ada", remember="forever")  # type: ignore[arg-type]


async def test_denial_grants_no_permission(conversation: Conversation) -> None:
    conversation.declare([*SCRIPT[:1], "End."], [posts()], policy=lambda _: "ask")
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        move = vote.cast(
            session.uid, "ada", session.waits[0].id, ApprovalDecision.DENIED, remember=PermissionWidth.TOOL
        )
        with pytest.raises(ConfigError, match="A denial covers one call"):
            await runtime.store.write(move)
        assert await granted(runtime) == []


async def test_what_was_revoked_is_asked_again(conversation: Conversation) -> None:
    conversation.declare([*SCRIPT[:2], "End.", *SCRIPT[2:]], [posts()], policy=lambda _: "ask")
    async with open_runtime(conversation.target) as runtime:
        session = await approve(runtime, await conversation.start(runtime), "tool")
        assert asked(session) == []
        [one] = await granted(runtime)
        gone = await runtime.revoke_exemption(one.id, because="enough", by="grace")
        assert (gone.revoked_by, gone.granted_by) == ("grace", "ada")
        await runtime.send("talk", "again")
        assert asked(await runtime.run("talk")) == ["b"]
