"""Branches taken at awkward moments: what a second reader of the agent core found."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure import tool
from perdure.agent.model import OnText, Reply, Request, ToolCall
from perdure.control.branches.rewind import rewind
from tests.agent.conftest import opened
from tests.agent.talk import Talk, calls, lines

pytestmark = pytest.mark.databases("sqlite", "postgres")


async def numbered(runtime: perdure.Runtime, kind: str, name: str = "talk") -> list[int]:
    return [one.number async for one in runtime.events(name) if one.kind == kind]


async def test_a_question_that_two_branches_ask_can_be_answered_in_each(talk: Talk) -> None:
    talk.declare([calls(("ask_person", {"question": "Which?"})), "Thanks."], ["ask_person"])
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        branch = await runtime.fork("talk")
        branch = await runtime.run(branch.id)
        for number, view in enumerate((await runtime.get("talk"), branch)):
            (asked,) = view.waits
            await runtime.answer(asked.id, f"answer {number}", by="ada")
            view = await runtime.run(view.id)
            assert [one.kind for one in view.waits] == ["input"]
            told = [event.body async for event in runtime.events(view.id) if event.kind == "message"]
            assert f"answer {number}" in str([one["content"] for one in told if one["role"] == "tool"])


async def test_an_answer_that_was_given_before_the_fork_is_inherited(talk: Talk) -> None:
    talk.declare([calls(("ask_person", {"question": "Which?"})), "Thanks."], ["ask_person"])
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        await runtime.answer(session.waits[0].id, "b", by="ada")
        (at,) = await numbered(runtime, "wait.resolved")
        branch = await runtime.fork("talk", at=at)
        view = await runtime.run(branch.id)
        assert not [one for one in view.waits if one.ref == "ask"]
        assert talk.told() == ["done: ada answers: b"]


class Both:
    """The script for the parent; the child posts once and says so."""

    name = "scripted"

    def __init__(self, talk: Talk) -> None:
        self.talk = talk

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        if request.turns[0].text != "a part":
            return await self.talk.model.reply(request, on_text)
        if request.number == 0:
            return Reply(calls=(ToolCall("c", "post", {}),), stop="calls")
        return Reply("Part done.")


async def test_what_a_sub_agent_did_before_the_fork_is_not_done_again(talk: Talk) -> None:
    done: list[int] = []

    @tool(replay="idempotent")
    def post() -> str:
        done.append(1)
        return "posted"

    agent = talk.declare([calls(("delegate", {"task": "a part"})), "All done."], ["delegate", post])
    agent.model = Both(talk)
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        at = (await numbered(runtime, "wait.resolved"))[0]
        branch = await runtime.fork("talk", at=at)
        await runtime.run(branch.id)
        assert done == [1]


def unsure() -> Any:
    @tool(inflight="1ms", name="mail")
    def mail() -> str:
        raise RuntimeError("the line was cut")

    return mail


async def test_a_rewind_waits_for_a_person_though_a_doubt_of_then_is_settled_now(talk: Talk) -> None:
    talk.declare([calls(("mail", {})), "I do not know.", "Now I know.", "On my own."], [unsure()])
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        at = (await numbered(runtime, "message"))[-1]
        effect = next(one.ref for one in session.waits if one.kind == "doubt")
        assert effect is not None
        await runtime.settle(effect, "happened", by="ada", because="she has it", result="mailed")
        await runtime.run("talk")
        asked = len(talk.model.requests)
        made = await rewind(runtime, "talk", to=at)
        assert made.problem is None
        await runtime.run(made.session.id)
        assert len(talk.model.requests) == asked


async def shortened_branch(talk: Talk, *more: tuple[str, Any]) -> str:
    """What the model of a branch is shown first, when its window was shortened after the fork."""

    @tool(replay="idempotent")
    def post(n: int) -> str:
        return f"posted {n} " + "word " * 100

    class Summing:
        name = "scripted"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            return await talk.model.reply(request, on_text) if request.tools else Reply("Things were posted.")

    decided = ("decide", {"decision": "post it", "because": "it was asked for"})
    first = calls(decided, *more, ("plan", {"tasks": [{"title": "post all"}]}))
    agent = talk.declare([first, "One.", *(calls(("post", {"n": n})) for n in range(2, 12)), "End."],
                         [post, "decide", "plan"])  # fmt: skip
    agent.model = Summing()
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        agent.context = 600
        branch = await runtime.fork("talk")
        await runtime.send(branch.id, "go on")
        await runtime.run(branch.id)
        return talk.shown()[0].text


async def test_a_branch_that_is_shortened_keeps_what_its_line_did(talk: Talk) -> None:
    shown = await shortened_branch(talk, ("post", {"n": 1}))
    assert "Things were posted." in shown
    assert '"n":1}' in shown, "a settled effect of the line is no longer known"


async def test_a_branch_that_is_shortened_keeps_the_plan_and_the_decisions_of_its_line(talk: Talk) -> None:
    shown = await shortened_branch(talk)
    assert "post it" in shown
    assert "post all" in shown


async def test_a_branch_of_a_call_whose_tool_is_gone_is_told_what_is_known(talk: Talk) -> None:
    @tool(replay="idempotent")
    def post() -> str:
        return "posted"

    talk.declare([calls(("post", {})), "Posted."], [post])
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        (effect,) = [one async for one in runtime.effects(session="talk", tool="post")]
        done = [one async for one in runtime.events("talk") if one.effect_id == effect.id]
        branch = await runtime.fork("talk", at=done[-1].number)
        talk.declare([calls(("post", {})), "Posted."], [])
        await runtime.run(branch.id)
        assert talk.told() == ["done: posted"]


async def test_a_fork_before_the_first_line_begins_anew(talk: Talk) -> None:
    talk.declare(["Hello.", "Again."])
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        branch = await runtime.fork("talk", at=1)
        await runtime.run(branch.id)
        assert [one["content"] for one in await lines(runtime, branch.id)] == ["begin", "Hello."]


async def test_a_model_hears_that_what_it_did_was_taken_back(talk: Talk) -> None:
    @tool(replay="idempotent")
    def book() -> str:
        return "booked"

    @book.undo
    def _(result: str | None) -> None: ...

    talk.declare([calls(("book", {})), "Booked.", "Yes."], [book])
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        (effect,) = [one async for one in runtime.effects(session="talk", tool="book")]
        assert (await runtime.undo(effect.id, by="ada", because="wrong night")).state == "compensated"
        await runtime.send("talk", "go on")
        await runtime.run("talk")
        assert [turn.text for turn in talk.shown() if "taken back" in turn.text or effect.id in turn.text]


class Asks:
    """The sub-agent asks a person, and does not end before she answers."""

    name = "asks"

    def __init__(self, talk: Talk) -> None:
        self.talk = talk

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        if request.turns[0].text != "a part":
            return await self.talk.model.reply(request, on_text)
        return Reply(calls=(ToolCall("c", "ask_person", {"question": "Which?"}),), stop="calls")


async def test_a_branch_waits_for_the_sub_agent_of_a_session_that_was_cancelled_and_begins_no_other(talk: Talk) -> None:
    agent = talk.declare([calls(("delegate", {"task": "a part"})), "All done."], ["delegate", "ask_person"])
    agent.model = Asks(talk)
    async with opened(talk.target) as runtime:
        view = await talk.start(runtime)
        (child,) = [one.ref for one in view.waits if one.kind == "child"]
        branch = await runtime.fork("talk")
        await runtime.cancel("talk")
        assert (await runtime.run("talk")).status == "cancelled"
        for made in (branch, await runtime.fork("talk")):
            view = await runtime.run(made.id)
            assert (view.error, [one.kind for one in view.waits]) == (None, ["input"])
        found = [one async for one in runtime.sessions() if one.parent_uid is not None]
        assert [one.uid for one in found] == [child]


async def test_a_question_that_was_closed_with_its_session_is_no_answer_for_a_branch(talk: Talk) -> None:
    talk.declare([calls(("ask_person", {"question": "Which?"})), "Thanks."], ["ask_person"])
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        await runtime.cancel("talk")
        assert (await runtime.run("talk")).status == "cancelled"
        branch = await runtime.fork("talk")
        assert [one.ref for one in (await runtime.run(branch.id)).waits] == ["ask"]
