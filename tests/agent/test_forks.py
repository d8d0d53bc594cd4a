"""Branches forked at difficult moments: open questions, doubts, sub-agents and summaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import tool
from perdure.agent.model import OnText, Reply, Request, ToolCall
from perdure.control.branches.rewind import rewind
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls, lines

pytestmark = pytest.mark.databases("sqlite", "postgres")


async def numbered(runtime: perdure.Runtime, kind: str, name: str = "talk") -> list[int]:
    return [one.number async for one in runtime.events(name) if one.kind == kind]


async def test_a_question_can_be_answered_in_each_of_two_branches(conversation: Conversation) -> None:
    conversation.declare([calls(("ask_person", {"question": "Which?"})), "Thanks."], ["ask_person"])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        branch = await runtime.fork("talk")
        branch = await runtime.run(branch.id)
        for number, view in enumerate((await runtime.get("talk"), branch)):
            (asked,) = view.waits
            await runtime.answer(asked.id, f"answer {number}", by="ada")
            view = await runtime.run(view.id)
            assert [one.kind for one in view.waits] == ["input"]
            told = [event.body async for event in runtime.events(view.id) if event.kind == "message"]
            assert f"answer {number}" in str([one["content"] for one in told if one["role"] == "tool"])


async def test_an_answer_that_was_given_before_the_fork_is_inherited(conversation: Conversation) -> None:
    conversation.declare([calls(("ask_person", {"question": "Which?"})), "Thanks."], ["ask_person"])
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        await runtime.answer(session.waits[0].id, "b", by="ada")
        (at,) = await numbered(runtime, "wait.resolved")
        branch = await runtime.fork("talk", at=at)
        view = await runtime.run(branch.id)
        assert not [one for one in view.waits if one.ref == "ask"]
        assert conversation.tool_results() == ["done: ada answers: b"]


class Both:
    """The script for the parent; the child posts once and says so."""

    name = "scripted"

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        if request.turns[0].text != "a part":
            return await self.conversation.model.reply(request, on_text)
        if request.number == 0:
            return Reply(calls=(ToolCall("c", "post", {}),), stop="calls")
        return Reply("Part done.")


async def test_work_of_a_sub_agent_before_the_fork_is_not_repeated(conversation: Conversation) -> None:
    done: list[int] = []

    @tool(replay="idempotent")
    def post() -> str:
        done.append(1)
        return "posted"

    agent = conversation.declare([calls(("delegate", {"task": "a part"})), "All done."], ["delegate", post])
    agent.model = Both(conversation)
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        at = (await numbered(runtime, "wait.resolved"))[0]
        branch = await runtime.fork("talk", at=at)
        await runtime.run(branch.id)
        assert done == [1]


def failing_mail() -> Any:
    @tool(inflight="1ms", name="mail")
    def mail() -> str:
        raise RuntimeError("the line was cut")

    return mail


async def test_a_rewind_waits_for_a_person_after_its_doubt_is_settled(conversation: Conversation) -> None:
    conversation.declare([calls(("mail", {})), "I do not know.", "Now I know.", "On my own."], [failing_mail()])
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        at = (await numbered(runtime, "message"))[-1]
        effect = next(one.ref for one in session.waits if one.kind == "doubt")
        assert effect is not None
        await runtime.settle(effect, "happened", by="ada", because="she has it", result="mailed")
        await runtime.run("talk")
        asked = len(conversation.model.requests)
        made = await rewind(runtime, "talk", to=at)
        assert made.problem is None
        await runtime.run(made.session.id)
        assert len(conversation.model.requests) == asked


async def test_a_rewound_session_of_one_answer_waits_for_the_next_message(conversation: Conversation) -> None:
    conversation.declare(["One.", "Two."], [])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime, once=True)
        for at, answer in zip(await numbered(runtime, "message"), ("One.", "Two."), strict=True):
            branch = (await rewind(runtime, "talk", to=at)).session
            assert [one.kind for one in branch.waits] == ["input"]
            await runtime.send(branch.id, "Again.")
            branch = await runtime.run(branch.id)
            assert (branch.status, branch.result) == ("done", answer)


async def shortened_branch(conversation: Conversation, *more: tuple[str, Any]) -> str:
    """What the model of a branch is shown first, when its window was shortened after the fork."""

    @tool(replay="idempotent")
    def post(n: int) -> str:
        return f"posted {n} " + "word " * 100

    class SummaryModel:
        name = "scripted"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            return await conversation.model.reply(request, on_text) if request.tools else Reply("Things were posted.")

    decided = ("decide", {"decision": "post it", "because": "it was asked for"})
    first = calls(decided, *more, ("plan", {"tasks": [{"title": "post all"}]}))
    agent = conversation.declare([first, "One.", *(calls(("post", {"n": n})) for n in range(2, 12)), "End."],
                         [post, "decide", "plan"])  # fmt: skip
    agent.model = SummaryModel()
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        agent.context = 600
        branch = await runtime.fork("talk")
        await runtime.send(branch.id, "continue")
        await runtime.run(branch.id)
        return conversation.turns_shown()[0].text


async def test_a_compacted_branch_keeps_the_effects_of_its_lineage(conversation: Conversation) -> None:
    shown = await shortened_branch(conversation, ("post", {"n": 1}))
    assert "Things were posted." in shown
    assert '"n":1}' in shown, "a settled effect of the line is no longer known"


async def test_a_compacted_branch_keeps_plan_and_decisions_of_its_lineage(conversation: Conversation) -> None:
    shown = await shortened_branch(conversation)
    assert "post it" in shown
    assert "post all" in shown


async def test_a_branch_reports_a_call_whose_tool_is_gone(conversation: Conversation) -> None:
    @tool(replay="idempotent")
    def post() -> str:
        return "posted"

    conversation.declare([calls(("post", {})), "Posted."], [post])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        (effect,) = [one async for one in runtime.effects(session="talk", tool="post")]
        done = [one async for one in runtime.events("talk") if one.effect_id == effect.id]
        branch = await runtime.fork("talk", at=done[-1].number)
        conversation.declare([calls(("post", {})), "Posted."], [])
        await runtime.run(branch.id)
        assert conversation.tool_results() == ["done: posted"]


async def test_a_fork_before_the_first_line_starts_over(conversation: Conversation) -> None:
    conversation.declare(["Hello.", "Again."])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        branch = await runtime.fork("talk", at=1)
        await runtime.run(branch.id)
        assert [one["content"] for one in await lines(runtime, branch.id)] == ["begin", "Hello."]


async def test_a_model_is_informed_of_an_undo(conversation: Conversation) -> None:
    @tool(replay="idempotent")
    def book() -> str:
        return "booked"

    @book.undo
    def _(result: str | None) -> None: ...

    conversation.declare([calls(("book", {})), "Booked.", "Yes."], [book])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        (effect,) = [one async for one in runtime.effects(session="talk", tool="book")]
        assert (await runtime.undo(effect.id, by="ada", because="wrong night")).state == "compensated"
        await runtime.send("talk", "continue")
        await runtime.run("talk")
        assert [turn.text for turn in conversation.turns_shown() if "taken back" in turn.text or effect.id in turn.text]


class Asks:
    """The sub-agent asks a person, and does not end before she answers."""

    name = "asks"

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        if request.turns[0].text != "a part":
            return await self.conversation.model.reply(request, on_text)
        return Reply(calls=(ToolCall("c", "ask_person", {"question": "Which?"}),), stop="calls")


async def test_a_branch_waits_for_the_sub_agent_of_its_cancelled_parent(conversation: Conversation) -> None:
    agent = conversation.declare([calls(("delegate", {"task": "a part"})), "All done."], ["delegate", "ask_person"])
    agent.model = Asks(conversation)
    async with open_runtime(conversation.target) as runtime:
        view = await conversation.start(runtime)
        (child,) = [one.ref for one in view.waits if one.kind == "child"]
        branch = await runtime.fork("talk")
        await runtime.cancel("talk")
        assert (await runtime.run("talk")).status == "cancelled"
        for made in (branch, await runtime.fork("talk")):
            view = await runtime.run(made.id)
            assert (view.error, [one.kind for one in view.waits]) == (None, ["input"])
        found = [one async for one in runtime.sessions() if one.parent_uid is not None]
        assert [one.uid for one in found] == [child]


async def test_a_question_closed_with_its_session_is_open_in_a_branch(conversation: Conversation) -> None:
    conversation.declare([calls(("ask_person", {"question": "Which?"})), "Thanks."], ["ask_person"])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        await runtime.cancel("talk")
        assert (await runtime.run("talk")).status == "cancelled"
        branch = await runtime.fork("talk")
        assert [one.ref for one in (await runtime.run(branch.id)).waits] == ["ask"]


@pytest.mark.databases("memory")
async def test_a_branch_changes_nothing_while_its_lineage_is_in_doubt(conversation: Conversation) -> None:
    done: list[int] = []

    @tool(replay="idempotent")
    def post() -> str:
        done.append(1)
        return "posted"

    conversation.declare(
        [calls(("mail", {})), "I do not know.", calls(("post", {})), "Posted."], [failing_mail(), post]
    )
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        branch = await runtime.fork("talk")
        await runtime.send(branch.id, "post it")
        view = await runtime.run(branch.id)
        assert done == []
        assert [one.kind for one in view.waits] == ["effect"]


@pytest.mark.databases("memory")
async def test_a_lost_artifact_does_not_fail_the_session(conversation: Conversation, tmp_path: Path) -> None:
    @tool(replay="idempotent")
    def big() -> str:
        return "x" * 200_000

    conversation.declare([calls(("big", {})), "Done.", "Yes."], [big])
    async with open_runtime(conversation.target, artifacts=tmp_path / "kept") as runtime:
        await conversation.start(runtime)
        (effect,) = [one async for one in runtime.effects(session="talk", tool="big")]
        done = [one async for one in runtime.events("talk") if one.effect_id == effect.id]
        branch = await runtime.fork("talk", at=done[-1].number)
        assert effect.artifact is not None
        for one in (tmp_path / "kept").rglob(f"{effect.artifact}*"):
            one.unlink()
        view = await runtime.run(branch.id)
        assert view.status == "waiting", view.error
