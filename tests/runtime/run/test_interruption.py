"""An interrupt of a program stops what can be stopped, and pauses the session."""

from __future__ import annotations

import asyncio
import threading
from typing import Literal

import pytest

import perdure
from perdure import Session, program, tool
from perdure.runtime.queries import SessionView

pytestmark = pytest.mark.databases("sqlite", "postgres")


async def interrupted(runtime: perdure.Runtime, running: asyncio.Task[SessionView], id: str = "s") -> SessionView:
    await runtime.interrupt(id, by="ada")
    view = await asyncio.wait_for(running, 120)
    assert (view.status, view.interrupt_requested_at) == ("waiting", None)
    return view


async def test_an_asynchronous_step_is_stopped_and_computed_again(target: str) -> None:
    begun, computed = asyncio.Event(), []

    async def slow() -> int:
        computed.append(1)
        begun.set()
        if len(computed) == 1:
            await asyncio.Event().wait()
        return 7

    @program
    async def steps(s: Session) -> int:
        return await s.step("slow", slow)

    async with perdure.open(target) as runtime, perdure.open(target) as other:
        await runtime.start(steps.bind(), id="s")
        running = asyncio.create_task(runtime.run("s"))
        await begun.wait()
        view = await interrupted(other, running)
        assert [one.kind for one in view.waits] == ["paused"]
        await runtime.resume("s")
        assert ((await runtime.run("s")).result, len(computed)) == (7, 2)


async def test_a_step_in_a_thread_ends_and_the_next_does_not_begin(target: str) -> None:
    begun, release, computed = threading.Event(), threading.Event(), []

    def slow() -> int:
        begun.set()
        release.wait(60)
        return 7

    def after() -> int:
        computed.append(1)
        return 8

    @program
    async def steps(s: Session) -> int:
        return await s.step("slow", slow) + await s.step("after", after)

    async with perdure.open(target) as runtime:
        await runtime.start(steps.bind(), id="s")
        running = asyncio.create_task(runtime.run("s"))
        await asyncio.to_thread(begun.wait, 60)
        await runtime.interrupt("s", by="ada")
        release.set()
        view = await asyncio.wait_for(running, 120)
        assert ([one.kind for one in view.waits], computed) == (["paused"], [])
        await runtime.resume("s")
        assert (await runtime.run("s")).result == 15


async def test_a_stopped_effect_is_recovered_by_its_rule_when_resumed(target: str) -> None:
    begun, attempts = asyncio.Event(), []

    @tool(replay="idempotent", retry=3)
    async def post() -> int:
        attempts.append(1)
        begun.set()
        if len(attempts) == 1:
            await asyncio.Event().wait()
        return 7

    @program
    async def posting(s: Session) -> int:
        return await s.do(post)

    async with perdure.open(target) as runtime:
        await runtime.start(posting.bind(), id="s")
        running = asyncio.create_task(runtime.run("s"))
        await begun.wait()
        view = await interrupted(runtime, running)
        assert ([one.kind for one in view.waits], len(attempts)) == (["paused"], 1)
        await runtime.resume("s")
        assert ((await runtime.run("s")).result, len(attempts)) == (7, 2)


@pytest.mark.parametrize("answer", ["allow", "ask"])
async def test_a_stopped_pure_effect_has_not_failed(target: str, answer: Literal["allow", "ask"]) -> None:
    begun, attempts = asyncio.Event(), []

    @tool(replay="pure", retry=1)
    async def fetch() -> int:
        attempts.append(1)
        begun.set()
        if len(attempts) == 1:
            await asyncio.Event().wait()
        return 7

    @program
    async def fetching(s: Session) -> int:
        return await s.do(fetch)

    async with perdure.open(target, policy=lambda _: answer) as runtime:
        await runtime.start(fetching.bind(), id="s")
        if answer == "ask":
            await runtime.approve((await runtime.run("s")).waits[0].id, by="grace")
        running = asyncio.create_task(runtime.run("s"))
        await begun.wait()
        await interrupted(runtime, running)
        await runtime.resume("s")
        assert ((await runtime.run("s")).result, len(attempts)) == (7, 2)


async def test_a_pause_between_retries_of_a_step_ends(target: str) -> None:
    def fails() -> int:
        raise ValueError("not yet")

    @program
    async def steps(s: Session) -> int:
        return await s.step("fails", fails, retries=3, backoff="1h")

    async with perdure.open(target) as runtime:
        await runtime.start(steps.bind(), id="s")
        assert [one.kind for one in (await runtime.run("s")).waits] == ["timer"]
        await runtime.interrupt("s", by="ada")
        view = await runtime.run("s")
        assert "paused" in [one.kind for one in view.waits]
        assert view.pause_requested_at is not None


async def test_a_child_is_paused_and_resumed_with_its_parent(target: str) -> None:
    begun, computed = asyncio.Event(), []

    async def slow() -> int:
        computed.append(1)
        begun.set()
        if len(computed) == 1:
            await asyncio.Event().wait()
        return 7

    @program
    async def inner(s: Session) -> int:
        return await s.step("slow", slow)

    @program
    async def outer(s: Session) -> int:
        return await s.child(inner.bind(), id="c")

    async with perdure.open(target) as runtime:
        await runtime.start(outer.bind(), id="s")
        running = asyncio.create_task(runtime.run("s"))
        await begun.wait()
        await interrupted(runtime, running)
        assert [one.kind for one in (await runtime.get("c")).waits] == ["paused"]
        await runtime.resume("s")
        assert (await runtime.complete("s")).result == 7


async def test_a_program_that_waits_for_a_message_and_a_timer_is_paused(target: str) -> None:
    @program
    async def both(s: Session) -> None:
        await s.gather(s.receive(), s.sleep("1h"))

    async with perdure.open(target) as runtime:
        await runtime.start(both.bind(), id="s")
        await runtime.run("s")
        await runtime.interrupt("s", by="ada")
        assert "paused" in [one.kind for one in (await runtime.run("s")).waits]
        await runtime.resume("s")
        assert sorted(one.kind for one in (await runtime.run("s")).waits) == ["input", "timer"]


async def test_a_child_that_waits_is_paused_and_resumed_with_its_parent(target: str) -> None:
    @program
    async def inner(s: Session) -> None:
        await s.sleep("1h")

    @program
    async def outer(s: Session) -> None:
        await s.child(inner.bind(), id="c")

    async with perdure.open(target) as runtime:
        await runtime.start(outer.bind(), id="s")
        assert [one.kind for one in (await runtime.run("s")).waits] == ["child"]
        await runtime.interrupt("s", by="ada")
        for id in ("s", "c"):
            assert "paused" in [one.kind for one in (await runtime.run(id)).waits]
        await runtime.resume("s")
        assert [one.kind for one in (await runtime.run("c")).waits] == ["timer"]
        assert [one.kind for one in (await runtime.run("s")).waits] == ["child"]


async def test_a_program_that_ends_first_is_not_interrupted(target: str) -> None:
    @program
    async def short(s: Session) -> int:
        return 7

    async with perdure.open(target) as runtime:
        await runtime.start(short.bind(), id="s")
        await runtime.run("s")
        with pytest.raises(perdure.IllegalMove, match="done already"):
            await runtime.interrupt("s", by="ada")


async def test_a_session_with_a_doubt_is_paused_after_its_verdict(target: str) -> None:
    @tool
    def push() -> int:
        raise ValueError("the connection was lost")

    @program
    async def pushing(s: Session) -> None:
        await s.gather(s.do(push), s.sleep("1h"))

    async with perdure.open(target) as runtime:
        await runtime.start(pushing.bind(), id="s")
        assert sorted(one.kind for one in (await runtime.run("s")).waits) == ["doubt", "timer"]
        await runtime.interrupt("s", by="ada")
        view = await asyncio.wait_for(runtime.run("s"), 120)
        assert (view.status, view.interrupt_requested_at) == ("waiting", None)
        assert view.pause_requested_at is not None
        (effect,) = [one async for one in runtime.effects(session="s")]
        await runtime.settle(effect.id, "happened", by="ada", because="seen", result=1)
        assert "paused" in [one.kind for one in (await runtime.run("s")).waits]


async def test_resume_withdraws_an_interrupt_that_no_process_honoured(target: str) -> None:
    @program
    async def sleeps(s: Session) -> None:
        await s.sleep(hours=1)

    async with perdure.open(target) as runtime:
        await runtime.start(sleeps.bind(), id="s")
        await runtime.run("s")
        await runtime.interrupt("s", by="ada")
        await runtime.resume("s")
        assert [one.kind for one in (await runtime.run("s")).waits] == ["timer"]
