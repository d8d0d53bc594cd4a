"""Questions, sub-agents, approvals and what an agent keeps for itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import tool
from perdure.agent.model import Model, OnText, Reply, Request
from perdure.agent.permissions import ask_first
from perdure.runtime.ledger.policy import Intent
from tests.agent.conftest import opened
from tests.agent.talk import Talk, calls, lines

pytestmark = pytest.mark.databases("sqlite", "postgres")


async def test_a_question_waits_for_a_person_and_its_answer_is_told(talk: Talk) -> None:
    talk.declare([calls(("ask_person", {"question": "Which?", "choices": ["a", "b"]})), "Thanks."], ["ask_person"])
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        (asked,) = session.waits
        assert (asked.kind, asked.detail) == ("input", {"question": "Which?", "choices": ["a", "b"]})
        await runtime.answer(asked.id, "b", by="ada")
        await runtime.run("talk")
        assert talk.told() == ["done: ada answers: b"]


async def test_a_message_is_not_the_answer_to_a_question(talk: Talk) -> None:
    talk.declare([calls(("ask_person", {"question": "Which?"})), "Thanks."], ["ask_person"])
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        await runtime.send("talk", "by the way")
        assert (await runtime.run("talk")).status == "waiting"
        assert len(talk.model.requests) == 1


async def test_a_sub_agent_is_a_session_of_its_own_and_its_answer_is_told(talk: Talk) -> None:
    talk.declare([calls(("delegate", {"task": "a part"})), "All done."], ["delegate"])
    assert talk.agent is not None
    script = talk.model
    talk.agent.model = _Both(script)
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        assert session.status == "waiting"
        children = [one async for one in runtime.sessions() if one.parent_uid == session.uid]
        assert talk.told() == [f"done (from agent:{children[0].id}): Part done."]
        assert [(one.status, one.result) for one in children] == [("done", "Part done.")]


class _Both:
    """The script for the parent; the child says one thing."""

    name = "scripted"

    def __init__(self, script: Model) -> None:
        self._script = script

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        mine = request.turns[0].text == "a part"
        return Reply("Part done.") if mine else await self._script.reply(request, on_text)


async def test_a_gated_call_waits_and_is_told_what_was_decided(talk: Talk) -> None:
    @tool(replay="idempotent")
    def push() -> str:
        return "pushed"

    def ask(intent: Intent) -> str:
        return "ask" if intent.tool == "push" else "allow"

    talk.declare([calls(("push", {})), "Pushed.", calls(("push", {})), "Not pushed."], [push], policy=ask)
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime, owner="root")
        await runtime.approve(session.waits[0].id, by="ada", because="fine")
        await runtime.run("talk")
        assert talk.told() == ["done: pushed"]
        await runtime.send("talk", "again")
        session = await runtime.run("talk")
        await runtime.deny(session.waits[0].id, by="ada", because="not now")
        await runtime.run("talk")
        assert talk.told()[-1].startswith("not started: push (e-")
        assert "not now" in talk.told()[-1]


async def test_the_policy_sees_where_what_was_read_came_from(talk: Talk, tmp_path: Path) -> None:
    seen: list[tuple[str, tuple[str, ...]]] = []

    def look(intent: Intent) -> str:
        seen.append((intent.tool, intent.origins))
        return "allow"

    (tmp_path / "a.txt").write_text("x")
    read = ("read_file", {"path": "a.txt"})
    talk.declare([calls(read), calls(read), "End."], ["read_file"], policy=look)
    async with opened(talk.target) as runtime:
        await talk.start(runtime, repository=tmp_path)
    assert seen == [("read_file", ()), ("read_file", ("file:a.txt",))]


def test_what_leaves_the_folder_is_asked_for_unless_it_is_allowed() -> None:
    asked = {name: ask_first(Intent(name, "probe", {}, [], "s", None, None)) for name in ("run_command", "git_push")}
    assert asked == {"run_command": "ask", "git_push": "ask"}
    assert ask_first(Intent("write_file", "probe", {}, [], "s", None, None)) == "allow"


async def test_what_an_agent_keeps_is_on_record(talk: Talk) -> None:
    talk.declare(
        [
            calls(
                ("plan", {"tasks": [{"title": "a"}, {"title": "b", "state": "active"}]}),
                ("decide", {"decision": "go", "because": "why not"}),
                ("remember", {"key": "k", "value": "v"}),
            ),
            calls(("recall", {"key": "k"}), ("plan", {"tasks": [{"title": "a", "state": "done"}]})),
            "End.",
        ],
        ["plan", "decide", "remember", "recall"],
    )
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        assert talk.told()[3:] == ["done: k = v (0 s old)", "done:\n[x] a\n[>] b"]
        assert [(one.title, one.state) async for one in runtime.tasks(session="talk")] == [
            ("a", "done"),
            ("b", "active"),
        ]
        assert [one.decision async for one in runtime.decisions(session="talk")] == ["go"]
        facts = [one async for one in runtime.facts(scope=f"session:{session.uid}")]
        assert [(one.key, one.value) for one in facts] == [("k", "v")]


async def test_an_artifact_is_kept_before_it_is_claimed(talk: Talk, tmp_path: Path) -> None:
    talk.declare([calls(("save_artifact", {"name": "report", "content": "long"})), "End."], ["save_artifact"])
    async with opened(talk.target, artifacts=tmp_path / "kept") as runtime:
        await talk.start(runtime, repository=tmp_path)
        (line,) = [one for one in await lines(runtime) if one["role"] == "tool"]
        assert runtime.values.directory is not None
        assert runtime.values.directory.get(line["artifact"]) == b"long"
