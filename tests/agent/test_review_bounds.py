"""Bounds, doubts across branches, and code that is not here: what a second reader of the agent core found."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import Limits, faults, tool
from perdure.agent.model import OnText, Reply, Request, Usage
from perdure.agent.stored_agent import STORED
from perdure.domain.effect import AttemptOutcome, Effect
from perdure.errors import ModelError
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.definitions.tool import TOOLS
from perdure.runtime.ledger.ledger import Ledger
from perdure.runtime.run.run import Run
from perdure.store.moves import effect as effects
from perdure.store.moves import inbox
from perdure.store.moves.effect_input import AttemptResult
from tests.agent.conftest import opened
from tests.agent.talk import Talk, calls, lines

pytestmark = pytest.mark.databases("memory")


def unsure() -> Any:
    @tool(inflight="1ms", name="mail")
    def mail() -> str:
        raise RuntimeError("the line was cut")

    return mail


async def test_while_the_line_is_in_doubt_a_branch_changes_nothing_either(talk: Talk) -> None:
    done: list[int] = []

    @tool(replay="idempotent")
    def post() -> str:
        done.append(1)
        return "posted"

    talk.declare([calls(("mail", {})), "I do not know.", calls(("post", {})), "Posted."], [unsure(), post])
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        branch = await runtime.fork("talk")
        await runtime.send(branch.id, "post it")
        view = await runtime.run(branch.id)
        assert done == []
        assert [one.kind for one in view.waits] == ["effect"]


async def test_what_a_model_is_shown_is_bounded_however_many_calls_it_made(talk: Talk) -> None:
    @tool(replay="pure")
    def look(n: int) -> str:
        return "x" * 100_000

    talk.declare([calls(*(("look", {"n": n}) for n in range(64))), "End."], [look])
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        letters = sum(len(turn.text) for turn in talk.shown())
        assert letters // 4 <= 150_000  # the budget is 100,000 tokens, and half as much again is the last resort


async def test_what_a_model_is_shown_is_bounded_however_long_a_message_is(talk: Talk) -> None:
    talk.declare(["Hello.", "Yes."])
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        await runtime.send("talk", "x" * 4_000_000)
        await runtime.run("talk")
        letters = sum(len(turn.text) for turn in talk.shown())
        assert letters // 4 <= 150_000


async def test_what_a_sub_agent_used_counts_towards_the_limits_of_who_asked(talk: Talk) -> None:
    class Both:
        name = "scripted"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            if request.turns[0].text == "a part":
                return Reply("Part done.", usage=Usage(1000, 1000, 0))
            return await talk.model.reply(request, on_text)

    script = [calls(("delegate", {"task": "a part"})) for _ in range(4)]
    agent = talk.declare([*script, "End."], ["delegate"], limits=Limits(tokens=1500))
    agent.model = Both()
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        children = [one async for one in runtime.sessions() if one.parent_uid == session.uid]
        assert len(children) == 1


async def test_an_agent_whose_tool_is_not_loaded_waits_for_code(talk: Talk, tmp_path: Path) -> None:
    @tool(replay="pure", name="mine")
    def mine() -> str:
        return "x"

    PROGRAMS[STORED.name] = STORED
    (tmp_path / "script.json").write_text('["Hello."]')
    async with opened(talk.target) as runtime:
        bound = STORED.bind_stored("begin", model=f"scripted:{tmp_path}/script.json", tools=["mine"])
        session = await runtime.start(bound, id="talk")
        del TOOLS["mine"]
        view = await runtime.run(session.id)
        assert [one.kind for one in view.waits] == ["program"]


async def test_a_policy_that_raises_does_not_end_the_session(talk: Talk) -> None:
    def policy(intent: Any) -> str:
        raise ValueError("surprise")

    @tool(replay="idempotent")
    def post() -> str:
        return "posted"

    talk.declare([calls(("post", {})), "End."], [post], policy=policy)
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        assert session.status == "waiting", session.error


async def test_the_ledger_does_not_say_failed_of_a_model_that_answered(talk: Talk) -> None:
    """The failure and the note that says so are one commit: there is no moment at which it would ask again."""

    class Once:
        name = "once"
        asked = 0

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            self.asked += 1
            if self.asked > 1:
                return Reply("Hello.")
            faults.arm(stop)
            raise ModelError("Away.", retry=False)

    here = asyncio.get_running_loop()

    def stop(name: str) -> None:
        if name == "commit.after":
            faults.disarm()
            here.call_soon_threadsafe(running.cancel)

    talk.declare([], model=Once())
    async with opened(talk.target) as runtime:
        running = asyncio.create_task(talk.start(runtime))
        with pytest.raises(asyncio.CancelledError):
            await running
        await runtime.run("talk")
        states = [one.state async for one in runtime.effects(session="talk", tool="model")]
        assert states == ["failed"]
        await runtime.send("talk", "try again")
        await runtime.run("talk")
        states = [one.state async for one in runtime.effects(session="talk", tool="model")]
        answers = [one for one in await lines(runtime) if one["role"] == "assistant"]
        assert states.count("acknowledged") == len(answers)


async def test_a_late_proof_of_failure_is_followed_and_told(talk: Talk) -> None:
    talk.declare([calls(("mail", {})), "I do not know.", "Now I know."], [unsure()])
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        id = next(one.ref for one in session.waits if one.kind == "doubt")
        assert id is not None
        known = AttemptResult(
            outcome=AttemptOutcome.FAILED, error='{"type":"NotDone","code":"not-done","message":"no"}'
        )
        await runtime.store.write(effects.settle(session.uid, "worker", id, 1, known, retry=3))
        await runtime.run("talk")
        (now,) = [one async for one in runtime.effects(session="talk", tool="mail")]
        assert now.state != "planned"


async def test_an_effect_that_was_planned_and_whose_tool_is_gone_is_not_left_open(talk: Talk) -> None:
    @tool(replay="idempotent")
    def post() -> str:
        return "posted"

    talk.declare([calls(("post", {})), "Posted."], [post], policy=lambda _: "ask")
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        (asked,) = session.waits
        talk.declare([calls(("post", {})), "Posted."], [], policy=lambda _: "ask")
        await runtime.approve(asked.id, by="ada", because="yes")
        await runtime.run("talk")
        (effect,) = [one async for one in runtime.effects(session="talk", tool="post")]
        assert effect.state != "planned"


async def test_a_message_to_a_session_that_runs_once_is_not_lost_at_its_end(talk: Talk) -> None:
    """It is taken in after the session has looked for messages for the last time, and before it ends."""
    agent = talk.declare(["Done.", "Heard."])
    main = agent.main
    sent: list[Any] = []
    async with opened(talk.target) as runtime:

        async def late(run: Run, ledger: Ledger) -> Any:
            answer = await main(run, ledger)
            if not sent:
                sent.append(await runtime.send("talk", "one thing more", message_id="m-1"))
            return answer

        agent.main = late  # type: ignore[method-assign]
        session = await talk.start(runtime, once=True)
        kept = await runtime.store.read(inbox.get, session.uid, "m-1")
        assert kept is not None
        assert kept.promoted_as is not None, "it was taken in, and never read"


async def test_a_run_that_is_cancelled_while_it_takes_the_lease_gives_it_back(talk: Talk) -> None:
    here = asyncio.get_running_loop()

    def stop(name: str) -> None:
        if name == "commit.after":
            faults.disarm()
            here.call_soon_threadsafe(running.cancel)

    agent = talk.declare(["Hello."])
    async with opened(talk.target) as runtime:
        await runtime.start(agent.bind("begin"), id="talk")
        faults.arm(stop)
        running = asyncio.create_task(runtime.run("talk"))
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await runtime.run("talk")).status == "waiting"


async def test_an_outcome_that_comes_while_it_is_doubted_is_told_as_it_came(talk: Talk) -> None:
    """The worker that was thought lost settles it right after the doubt is on record, before the model is told."""
    agent = talk.declare([calls(("mail", {})), "I see."], [unsure()])
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
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        assert talk.told() == ["done: mailed"]


async def test_a_session_whose_undo_is_in_doubt_waits_for_it_by_name(talk: Talk) -> None:
    @tool(replay="idempotent")
    def book() -> str:
        return "booked"

    @book.undo
    def _(result: str | None) -> None:
        raise RuntimeError("the line was cut")

    talk.declare([calls(("book", {})), "Booked.", "Yes."], [book])
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        (effect,) = [one async for one in runtime.effects(session="talk", tool="book")]
        kept = await runtime.undo(effect.id, by="ada", because="wrong night")
        assert (kept.state, kept.undo_by) == ("acknowledged", "ada")
        await runtime.send("talk", "go on")
        view = await runtime.run("talk")
        (undo,) = [one async for one in runtime.effects(session="talk", tool="book.undo")]
        assert undo.doubted_at is not None
        assert view.status == "waiting"
        assert sorted((one.kind, one.ref) for one in view.waits) == [("doubt", undo.id), ("input", None)]
