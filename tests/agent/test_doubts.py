"""Effects with an unknown outcome: the session waits for a person, and neither loops nor ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import faults, tool
from perdure.agent.model import OnText, Reply, Request
from perdure.domain.effect import AttemptOutcome, Effect
from perdure.errors import ModelError
from perdure.runtime.definitions.tool import TOOLS
from perdure.runtime.ledger.ledger import Ledger
from perdure.runtime.run.run import Run
from perdure.store.moves import effect as effects
from perdure.store.moves.effect_input import AttemptResult
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls, lines
from tests.agent.support.run_limits import count_runs

pytestmark = pytest.mark.databases("sqlite", "postgres")


def failing_mail(name: str = "mail") -> Any:
    @tool(inflight="1ms", name=name)
    def mail() -> str:
        """Send a mail with an unknown outcome."""
        raise RuntimeError("the line was cut")

    return mail


async def test_a_one_shot_session_waits_for_a_doubt_before_it_ends(conversation: Conversation) -> None:
    agent = conversation.declare([calls(("mail", {})), "Done."], [failing_mail()])
    count_runs(agent)
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime, once=True)
        assert [one.kind for one in session.waits] == ["doubt"]


async def test_a_one_shot_session_over_a_limit_waits_for_its_doubt(conversation: Conversation) -> None:
    agent = conversation.declare([calls(("mail", {})), "Done."], [failing_mail()], limits={"turns": 1})
    count_runs(agent)
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime, once=True)
        assert [one.kind for one in session.waits] == ["doubt"]


async def test_a_request_to_stop_waits_for_a_doubt(conversation: Conversation) -> None:
    agent = conversation.declare([calls(("mail", {})), "Done."], [failing_mail()])
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        assert sorted(one.kind for one in session.waits) == ["doubt", "input"]
        await runtime.cancel("talk")
        count_runs(agent)
        session = await runtime.run("talk")
        assert [one.kind for one in session.waits if one.kind == "doubt"]


async def test_an_effect_settled_as_absent_is_performed_and_reported(conversation: Conversation) -> None:
    tries: list[int] = []

    @tool(inflight="1ms", name="mail")
    def mail() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("the line was cut")
        return "mailed"

    conversation.declare([calls(("mail", {})), "I do not know.", "Now I know."], [mail])
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        effect = next(one.ref for one in session.waits if one.kind == "doubt")
        assert effect is not None
        await runtime.settle(effect, "absent", by="ada", because="she has no mail")
        await runtime.run("talk")
        states = [one.state async for one in runtime.effects(session="talk", tool="mail")]
        assert states != ["planned"], "the effect is never performed, and the model never informed"
        assert [line for line in await lines(runtime) if line.get("about") == "settled"]


async def test_an_order_in_doubt_waits_for_a_person(conversation: Conversation, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    agent = conversation.declare(["Hello."])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        given = {"folder": str(tmp_path), "home": str(tmp_path / "file" / "x"), "base": "a", "ours": "b", "theirs": "c"}
        await runtime.send("talk", {"perform": {"tool": "merge_branch", "arguments": given}})
        count_runs(agent)
        session = await runtime.run("talk")
        assert session.status == "waiting"


async def test_an_undo_with_unknown_outcome_is_a_doubt(conversation: Conversation) -> None:
    @tool(replay="idempotent", name="book")
    def book() -> str:
        return "booked"

    @book.undo
    def _(result: str | None) -> None:
        raise RuntimeError("the line was cut")

    conversation.declare([calls(("book", {})), "Booked.", "Yes."], [book])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        (effect,) = [one async for one in runtime.effects(session="talk", tool="book")]
        await runtime.undo(effect.id, by="ada", because="wrong night")
        await runtime.send("talk", "continue")
        session = await runtime.run("talk")
        assert session.status == "waiting"


async def test_a_recorded_call_with_changed_parameters_does_not_fail_the_session(conversation: Conversation) -> None:
    @tool(name="push")
    def push(branch: str) -> str:
        return "pushed"

    conversation.declare([calls(("push", {"branch": "main"})), "Pushed."], [push], policy=lambda _: "ask")
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        (asked,) = session.waits

        del TOOLS["push"]

        @tool(name="push")
        def push2(ref: int) -> str:
            return "pushed"

        agent = conversation.declare([calls(("push", {"branch": "main"})), "Pushed."], [push2], policy=lambda _: "ask")
        await runtime.approve(asked.id, by="ada", because="yes")
        count_runs(agent)
        view = await runtime.run("talk")
        assert [one.kind for one in view.waits] == ["input"]  # it never began, so no person is asked


@pytest.mark.databases("memory")
async def test_a_one_shot_session_cancelled_while_failing_still_fails(conversation: Conversation) -> None:
    """Cancelled after the model's failure is recorded, it must not wait for a message."""

    class Away:
        name = "away"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            faults.arm(stop)
            raise ModelError("Away.", retry=False)

    here = asyncio.get_running_loop()

    def stop(name: str) -> None:
        if name == "commit.after":
            faults.disarm()
            here.call_soon_threadsafe(running.cancel)

    conversation.declare([], model=Away())
    async with open_runtime(conversation.target) as runtime:
        running = asyncio.create_task(conversation.start(runtime, once=True))
        with pytest.raises(asyncio.CancelledError):
            await running
        faults.disarm()
        view = await runtime.run("talk")
        faults.disarm()
        assert view.status == "failed", view.waits


@pytest.mark.databases("memory")
async def test_a_finished_call_is_reported_after_its_parameters_changed(conversation: Conversation) -> None:
    @tool(replay="idempotent", name="post")
    def post(n: int) -> str:
        return "posted"

    script = [calls(("post", {"n": 1})), "Posted."]
    conversation.declare(script, [post])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        (effect,) = [one async for one in runtime.effects(session="talk", tool="post")]
        done = [one async for one in runtime.events("talk") if one.effect_id == effect.id]
        branch = await runtime.fork("talk", at=done[-1].number)
        del TOOLS["post"]

        @tool(replay="idempotent", name="post")
        def post_again(text: str) -> str:
            return "posted"

        conversation.declare(script, [post_again])
        view = await runtime.run(branch.id)
        assert view.status == "waiting", view.error
        assert conversation.tool_results() == ["done: posted"]


@pytest.mark.databases("memory")
async def test_an_absent_effect_without_its_tool_waits_for_code(conversation: Conversation) -> None:
    @tool(inflight="1ms", name="mail")
    def mail() -> str:
        raise RuntimeError("the line was cut")

    script = [calls(("mail", {})), "I do not know.", "Now I know."]
    conversation.declare(script, [mail])
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        id = next(one.ref for one in session.waits if one.kind == "doubt")
        assert id is not None
        await runtime.settle(id, "absent", by="ada", because="she has no mail")
        del TOOLS["mail"]
        conversation.declare(script, [])
        view = await runtime.run("talk")
        assert view.status != "failed", view.error


@pytest.mark.databases("memory")
async def test_an_absent_effect_with_changed_parameters_does_not_fail_the_session(conversation: Conversation) -> None:
    @tool(inflight="1ms", name="mail")
    def mail(to: str) -> str:
        raise RuntimeError("the line was cut")

    script = [calls(("mail", {"to": "ada"})), "I do not know.", "Now I know."]
    conversation.declare(script, [mail])
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        id = next(one.ref for one in session.waits if one.kind == "doubt")
        assert id is not None
        await runtime.settle(id, "absent", by="ada", because="she has no mail")
        del TOOLS["mail"]

        @tool(inflight="1ms", name="mail")
        def mail_again(address: int) -> str:
            return "mailed"

        conversation.declare(script, [mail_again])
        view = await runtime.run("talk")
        assert view.status != "failed", view.error


@pytest.mark.databases("memory")
async def test_a_one_shot_session_ends_when_its_doubt_is_settled(conversation: Conversation) -> None:
    @tool(inflight="1ms", name="mail")
    def mail() -> str:
        raise RuntimeError("the line was cut")

    conversation.declare([calls(("mail", {})), "I do not know.", "Now I know."], [mail])
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime, once=True)
        id = next(one.ref for one in session.waits if one.kind == "doubt")
        assert id is not None
        await runtime.settle(id, "happened", by="ada", because="she has it", result="mailed")
        view = await runtime.run("talk")
        assert (view.status, view.result) == ("done", "Now I know.")


@pytest.mark.databases("memory")
async def test_a_failing_one_shot_session_ends_when_its_doubt_is_settled(conversation: Conversation) -> None:
    @tool(inflight="1ms", name="mail")
    def mail() -> str:
        raise RuntimeError("the line was cut")

    class Twice:
        name = "twice"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            if request.number:
                raise ModelError("Away.", retry=False)
            return await conversation.model.reply(request, on_text)

    conversation.declare([calls(("mail", {}))], [mail], model=None).model = Twice()
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime, once=True)
        id = next(one.ref for one in session.waits if one.kind == "doubt")
        assert id is not None
        await runtime.settle(id, "happened", by="ada", because="she has it", result="mailed")
        view = await runtime.run("talk")
        assert view.status == "failed", view.waits


@pytest.mark.databases("memory")
async def test_a_cancelled_session_ends_when_its_doubt_is_settled(conversation: Conversation) -> None:
    @tool(inflight="1ms", name="mail")
    def mail() -> str:
        raise RuntimeError("the line was cut")

    conversation.declare([calls(("mail", {})), "I do not know."], [mail])
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        id: Any = next(one.ref for one in session.waits if one.kind == "doubt")
        await runtime.cancel("talk")
        await runtime.run("talk")
        await runtime.settle(id, "absent", by="ada", because="she has no mail")
        assert (await runtime.run("talk")).status == "cancelled"


@pytest.mark.databases("memory")
async def test_a_late_failure_is_recorded_and_reported(conversation: Conversation) -> None:
    conversation.declare([calls(("mail", {})), "I do not know.", "Now I know."], [failing_mail()])
    async with open_runtime(conversation.target) as runtime:
        session = await conversation.start(runtime)
        id = next(one.ref for one in session.waits if one.kind == "doubt")
        assert id is not None
        known = AttemptResult(
            outcome=AttemptOutcome.FAILED, error='{"type":"NotDone","code":"not-done","message":"no"}'
        )
        await runtime.store.write(effects.settle(session.uid, "worker", id, 1, known, retry=3))
        await runtime.run("talk")
        (now,) = [one async for one in runtime.effects(session="talk", tool="mail")]
        assert now.state != "planned"


@pytest.mark.databases("memory")
async def test_an_outcome_that_arrives_during_a_doubt_is_reported(conversation: Conversation) -> None:
    """The worker that was thought lost settles it right after the doubt is on record, before the model is told."""
    agent = conversation.declare([calls(("mail", {})), "I see."], [failing_mail()])
    open_ledger = agent.ledger
    known = AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result='"mailed"')

    def ledger(run: Run) -> Ledger:
        made = open_ledger(run)
        get = made.get

        async def settled_first(id: str) -> Effect:
            found = await get(id)
            if found.doubted_at is not None and found.settled_at is None:
                await runtime.store.write(effects.settle(found.session_uid, "worker", id, 1, known, retry=3))
            return await get(id)

        made.get = settled_first  # type: ignore[method-assign]
        return made

    agent.ledger = ledger  # type: ignore[method-assign]
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        assert conversation.tool_results() == ["done: mailed"]


@pytest.mark.databases("memory")
async def test_a_session_waits_for_an_undo_in_doubt(conversation: Conversation) -> None:
    @tool(replay="idempotent")
    def book() -> str:
        return "booked"

    @book.undo
    def _(result: str | None) -> None:
        raise RuntimeError("the line was cut")

    conversation.declare([calls(("book", {})), "Booked.", "Yes."], [book])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        (effect,) = [one async for one in runtime.effects(session="talk", tool="book")]
        kept = await runtime.undo(effect.id, by="ada", because="wrong night")
        assert (kept.state, kept.undo_by) == ("acknowledged", "ada")
        await runtime.send("talk", "continue")
        view = await runtime.run("talk")
        (undo,) = [one async for one in runtime.effects(session="talk", tool="book.undo")]
        assert undo.doubted_at is not None
        assert view.status == "waiting"
        assert sorted((one.kind, one.ref) for one in view.waits) == [("doubt", undo.id), ("input", None)]
