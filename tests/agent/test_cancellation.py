"""A run that is cancelled at any of its commits continues as if it had not been.

It makes calls, has a sub-agent, asks a person, hears both kinds of message and shortens its window.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure import Agent, Call, faults, tool
from perdure.agent.model import OnText, Reply, Request, ToolCall
from perdure.errors import LeaseHeld
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls, lines

LONG = "word " * 60


class Scripted:
    """A script by what was said so far; a sub-agent and a summary have one sentence each."""

    name = "scripted"
    script: tuple[Any, ...] = (
        calls(("post", {"n": 1}), ("post", {"n": 2})),
        calls(("delegate", {"task": "a part"}), ("post", {"n": 3})),
        calls(("ask_person", {"question": "Which?"}), ("post", {"n": 4})),
        calls(("post", {"n": 5})),
        "First.",
        calls(("post", {"n": 6})),
        "Second.",
    )

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        if not request.tools:
            return Reply("Things were posted.")
        if request.turns[0].text == "a part":
            post = ToolCall("c", "post", {"n": 100})
            return Reply(calls=(post,), stop="calls") if request.number == 0 else Reply("Part done.")
        said = self.script[request.number]
        if isinstance(said, str):
            return Reply(said)
        named = tuple(ToolCall("c", one["name"], one["arguments"]) for one in said["calls"])
        return Reply(calls=named, stop="calls")


async def driven(runtime: perdure.Runtime, id: str, at: int) -> tuple[int, list[Any]]:
    """Run a session to its last rest, cancelled once at its nth commit; the commits, and its transcript."""
    here, commits, sent = asyncio.get_running_loop(), 0, set()
    running: asyncio.Task[Any] | None = None

    def moment(name: str) -> None:
        nonlocal commits
        if name == "commit.after":
            commits += 1
            if commits == at and running is not None:
                here.call_soon_threadsafe(running.cancel)

    faults.arm(moment)
    try:
        for _ in range(60):
            running = asyncio.create_task(runtime.run(id))
            try:
                await running
            except asyncio.CancelledError:
                continue
            except LeaseHeld:  # cancelled while it asked for the lease: that ends by itself
                await asyncio.sleep(0.1)
                continue
            view = await runtime.get(id)
            if any(one.kind == "child" for one in view.waits):
                await asyncio.sleep(0.1)
            if view.status != "waiting":
                continue
            for one in view.waits:
                if one.ref == "ask":
                    await runtime.send(id, "quick", message_id="m-1", mode="steer")
                    await runtime.send(id, "later", message_id="m-2")
                    await runtime.answer(one.id, "b", by="ada")
                    sent.add(1)
            if sent and [one.kind for one in view.waits] == ["input"] and view.waits[0].ref is None:
                break
        else:
            raise AssertionError("it does not come to rest")
    finally:
        faults.disarm()
    said = [(one["role"], one.get("index"), one.get("status"), one["content"]) for one in await lines(runtime, id)]
    return commits, [one for one in said if one[0] not in ("note", "summary")]


@pytest.mark.slow
@pytest.mark.databases("memory")
async def test_cancellation_at_any_commit_changes_no_outcome(target: str) -> None:
    done: list[str] = []

    @tool(replay="idempotent")
    def post(call: perdure.Call, n: int) -> str:
        done.append(call.key)
        return f"posted {n} {LONG}"

    agent = Agent("swept", model=Scripted(), tools=[post, "delegate", "ask_person"], policy=None, context=400)
    async with open_runtime(target, lease="1s") as runtime:
        await runtime.start(agent.bind("begin"), id="whole")
        commits, whole = await driven(runtime, "whole", 0)
        posts = len(done)
        assert commits > 20
        for nth in range(1, commits + 1):
            done.clear()
            await runtime.start(agent.bind("begin"), id=f"s{nth}")
            _, said = await driven(runtime, f"s{nth}", nth)
            assert said == whole, nth
            assert len(done) == len(set(done)) == posts, nth


@pytest.mark.databases("memory")
async def test_a_run_cancelled_during_acquisition_releases_the_lease(conversation: Conversation) -> None:
    here = asyncio.get_running_loop()

    def stop(name: str) -> None:
        if name == "commit.after":
            faults.disarm()
            here.call_soon_threadsafe(running.cancel)

    agent = conversation.declare(["Hello."])
    async with open_runtime(conversation.target) as runtime:
        await runtime.start(agent.bind("begin"), id="talk")
        faults.arm(stop)
        running = asyncio.create_task(runtime.run("talk"))
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await runtime.run("talk")).status == "waiting"


@pytest.mark.databases("memory")
async def test_a_run_cancelled_between_calls_reports_each_once(conversation: Conversation) -> None:
    entered, go_on, done = asyncio.Event(), asyncio.Event(), []

    @tool(replay="idempotent")
    async def slow(call: Call, n: int) -> str:
        done.append(n)
        if len(done) == 3:
            entered.set()
        await go_on.wait()
        return f"slow {n}"

    conversation.declare([calls(*(("slow", {"n": n}) for n in range(3))), "End."], [slow])
    async with open_runtime(conversation.target) as runtime:
        running = asyncio.create_task(conversation.start(runtime))
        await entered.wait()
        running.cancel()
        asyncio.get_running_loop().call_later(0.05, go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await running
        await runtime.run("talk")
        assert (done, conversation.tool_results()) == ([0, 1, 2], ["done: slow 0", "done: slow 1", "done: slow 2"])


@pytest.mark.databases("memory")
async def test_a_session_paused_between_calls_reports_each_once(conversation: Conversation) -> None:
    done: list[int] = []
    here: list[perdure.Runtime] = []

    @tool(replay="idempotent")
    async def act(n: int) -> str:
        done.append(n)
        if n == 0:
            await here[0].pause("talk")
        return f"did {n}"

    conversation.declare([calls(*(("act", {"n": n}) for n in range(3))), "End."], [act], parallel=1)
    async with open_runtime(conversation.target) as runtime:
        here.append(runtime)
        session = await conversation.start(runtime)
        assert [one.kind for one in session.waits] == ["paused"]
        await runtime.send("talk", "by the way", mode="steer")
        await runtime.resume("talk")
        await runtime.run("talk")
        assert (done, conversation.tool_results()) == ([0, 1, 2], ["done: did 0", "done: did 1", "done: did 2"])
