"""What a second reader found in the repairs of what he had found."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import Limits, faults, tool
from perdure.agent.model import OnText, Reply, Request
from perdure.errors import ModelError
from perdure.runtime.definitions.tool import TOOLS
from perdure.testing import ManualClock
from tests.agent.conftest import opened
from tests.agent.talk import Talk, calls

pytestmark = pytest.mark.databases("memory")


async def test_a_session_that_runs_once_and_is_stopped_amid_its_failure_fails_all_the_same(talk: Talk) -> None:
    """Stopped after the failure of the model is on record, it must not wait for a message that nobody will send."""

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

    talk.declare([], model=Away())
    async with opened(talk.target) as runtime:
        running = asyncio.create_task(talk.start(runtime, once=True))
        with pytest.raises(asyncio.CancelledError):
            await running
        faults.disarm()
        view = await runtime.run("talk")
        faults.disarm()
        assert view.status == "failed", view.waits


async def test_a_call_that_was_done_is_told_though_its_tool_takes_something_else_now(talk: Talk) -> None:
    @tool(replay="idempotent", name="post")
    def post(n: int) -> str:
        return "posted"

    script = [calls(("post", {"n": 1})), "Posted."]
    talk.declare(script, [post])
    async with opened(talk.target) as runtime:
        await talk.start(runtime)
        (effect,) = [one async for one in runtime.effects(session="talk", tool="post")]
        done = [one async for one in runtime.events("talk") if one.effect_id == effect.id]
        branch = await runtime.fork("talk", at=done[-1].number)
        del TOOLS["post"]

        @tool(replay="idempotent", name="post")
        def post_again(text: str) -> str:
            return "posted"

        talk.declare(script, [post_again])
        view = await runtime.run(branch.id)
        assert view.status == "waiting", view.error
        assert talk.told() == ["done: posted"]


async def test_what_did_not_happen_and_whose_tool_is_gone_waits_for_code(talk: Talk) -> None:
    @tool(inflight="1ms", name="mail")
    def mail() -> str:
        raise RuntimeError("the line was cut")

    script = [calls(("mail", {})), "I do not know.", "Now I know."]
    talk.declare(script, [mail])
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        id = next(one.ref for one in session.waits if one.kind == "doubt")
        assert id is not None
        await runtime.settle(id, "absent", by="ada", because="she has no mail")
        del TOOLS["mail"]
        talk.declare(script, [])
        view = await runtime.run("talk")
        assert view.status != "failed", view.error


async def test_what_did_not_happen_and_whose_tool_takes_something_else_now_ends_nothing(talk: Talk) -> None:
    @tool(inflight="1ms", name="mail")
    def mail(to: str) -> str:
        raise RuntimeError("the line was cut")

    script = [calls(("mail", {"to": "ada"})), "I do not know.", "Now I know."]
    talk.declare(script, [mail])
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        id = next(one.ref for one in session.waits if one.kind == "doubt")
        assert id is not None
        await runtime.settle(id, "absent", by="ada", because="she has no mail")
        del TOOLS["mail"]

        @tool(inflight="1ms", name="mail")
        def mail_again(address: int) -> str:
            return "mailed"

        talk.declare(script, [mail_again])
        view = await runtime.run("talk")
        assert view.status != "failed", view.error


async def test_a_session_that_runs_once_ends_when_its_doubt_is_settled(talk: Talk) -> None:
    @tool(inflight="1ms", name="mail")
    def mail() -> str:
        raise RuntimeError("the line was cut")

    talk.declare([calls(("mail", {})), "I do not know.", "Now I know."], [mail])
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime, once=True)
        id = next(one.ref for one in session.waits if one.kind == "doubt")
        assert id is not None
        await runtime.settle(id, "happened", by="ada", because="she has it", result="mailed")
        view = await runtime.run("talk")
        assert (view.status, view.result) == ("done", "Now I know.")


async def test_a_failure_in_a_session_that_runs_once_ends_it_when_its_doubt_is_settled(talk: Talk) -> None:
    @tool(inflight="1ms", name="mail")
    def mail() -> str:
        raise RuntimeError("the line was cut")

    class Twice:
        name = "twice"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            if request.number:
                raise ModelError("Away.", retry=False)
            return await talk.model.reply(request, on_text)

    talk.declare([calls(("mail", {}))], [mail], model=None).model = Twice()
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime, once=True)
        id = next(one.ref for one in session.waits if one.kind == "doubt")
        assert id is not None
        await runtime.settle(id, "happened", by="ada", because="she has it", result="mailed")
        view = await runtime.run("talk")
        assert view.status == "failed", view.waits


async def test_a_cancelled_session_ends_when_its_doubt_is_settled(talk: Talk) -> None:
    @tool(inflight="1ms", name="mail")
    def mail() -> str:
        raise RuntimeError("the line was cut")

    talk.declare([calls(("mail", {})), "I do not know."], [mail])
    async with opened(talk.target) as runtime:
        session = await talk.start(runtime)
        id: Any = next(one.ref for one in session.waits if one.kind == "doubt")
        await runtime.cancel("talk")
        await runtime.run("talk")
        await runtime.settle(id, "absent", by="ada", because="she has no mail")
        assert (await runtime.run("talk")).status == "cancelled"


async def test_the_time_it_worked_counts_whoever_it_waited_for_in_between(talk: Talk) -> None:
    clock = ManualClock()

    @tool(replay="idempotent")
    def work(n: int) -> str:
        clock.advance(seconds=40 * 60)
        return "worked"

    script = [calls(("work", {"n": n})) for n in range(5)]
    talk.declare([*script, "End."], [work], policy=lambda _: "ask", limits=Limits(time="1h"))
    async with opened(talk.target, clock=clock, lease="100h") as runtime:
        session = await talk.start(runtime)
        while session.waits[0].kind == "approval":
            await runtime.approve(session.waits[0].id, by="ada", because="yes")
            session = await runtime.run("talk")
        assert (session.waits[0].detail or {}).get("about") == "limit"
