"""`s.ask(..., timeout=)`: a question that is closed when its time is over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import ConfigError, Session, SessionView, program
from tests.runtime.support.scripted_world import World

MEMORY = pytest.mark.databases("memory")
DURABLE = pytest.mark.databases("sqlite", "files", "postgres")
TIMEOUTS: list[str | float | None] = ["1h"]
SEEN: list[str] = []


@program
async def asks_with_timeout(s: Session) -> str:
    try:
        answer = str(await s.ask("Deploy?", choices=["yes", "no"], timeout=TIMEOUTS[-1]))
    except TimeoutError as error:
        answer = str(error)
    SEEN.append(answer)
    return f"{answer} {await s.ask('Continue?')}"


async def answer_last(world: World, answer: str) -> str:
    (one,) = (await world.rt.get("s")).waits
    await world.rt.answer(one.id, answer, by="ada")
    view = await world.again()
    assert view.status == "done"
    return str(view.result)


@DURABLE
async def test_a_question_times_out_once_and_in_every_later_run(world: World) -> None:
    SEEN.clear()
    first = await world.run(asks_with_timeout.bind())
    assert first.waits[0].due_at == world.clock.now() + 3600 * 1_000_000
    world.crash()
    world.clock.advance(hours=1)
    second = await world.again()
    assert [one.detail["question"] for one in second.waits] == ["Continue?"]
    with pytest.raises(Exception, match="resolved by timer"):
        await world.rt.answer(first.waits[0].id, "yes", by="ada")
    world.crash()
    assert await answer_last(world, "ok") == "The question 'Deploy?' was not answered in time. ok"
    assert len(set(SEEN)) == 1
    world.verify()


@MEMORY
async def test_an_answer_in_time_is_returned(world: World) -> None:
    first = await world.run(asks_with_timeout.bind())
    await world.rt.answer(first.waits[0].id, "no", by="ada")
    await world.again()
    world.clock.advance(hours=2)
    assert await answer_last(world, "ok") == "no ok"


@MEMORY
async def test_a_timeout_is_not_part_of_the_identity(world: World) -> None:
    first = await world.run(asks_with_timeout.bind())
    try:
        for timeout in (None, "2h"):
            TIMEOUTS.append(timeout)
            again = await world.again()
            assert [(one.id, one.due_at) for one in again.waits] == [(one.id, one.due_at) for one in first.waits]
    finally:
        del TIMEOUTS[1:]


@MEMORY
async def test_a_wrong_timeout_is_refused_when_asked(world: World) -> None:
    TIMEOUTS.append("soon")
    try:
        ended = await world.run(asks_with_timeout.bind())
    finally:
        TIMEOUTS.pop()
    assert (ended.status, ended.error["code"]) == ("failed", ConfigError.code)


@MEMORY
async def test_a_run_waits_for_the_timeout_of_a_question(world: World) -> None:
    @program
    async def asks_briefly(s: Session) -> str:
        try:
            return str(await s.ask("Deploy?", timeout="1h"))
        except TimeoutError:
            return "timed out"

    started = await world.run(asks_briefly.bind())
    assert await world.rt.driver._next_due(started, set(), lambda _: True) == started.waits[0].due_at


@MEMORY
async def test_an_answer_given_while_a_session_is_parked_is_not_missed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    @program
    async def asks_with_a_limit(s: Session) -> str:
        return str(await s.ask("Deploy?", timeout="1h"))

    monkeypatch.setattr("perdure.runtime.run.driver.SLOW_POLL", 600.0)
    next_due = world.rt.driver._next_due

    async def answered_meanwhile(view: SessionView, *given: Any) -> int | None:
        found = await next_due(view, *given)
        await world.rt.answer(view.waits[0].id, "yes")
        return found

    monkeypatch.setattr(world.rt.driver, "_next_due", answered_meanwhile)
    await world.rt.start(asks_with_a_limit.bind(), id="s")
    async with asyncio.timeout(60):
        assert (await world.rt.complete("s")).result == "yes"
