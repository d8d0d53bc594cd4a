"""What the runtime lists: decisions, facts, and the state at an event."""

from __future__ import annotations

import pytest

import perdure
from perdure import Call, Session, program, tool


@program
async def review_decider(s: Session, n: int) -> int:
    for number in range(n):
        await s.decide(f"choice {number}", because="it must be one")
    return n


async def test_all_decisions_of_a_session_are_listed() -> None:
    async with perdure.open("memory:") as rt:
        await rt.start(review_decider.bind(n=101), id="s")
        await rt.run("s")
        assert len([one async for one in rt.decisions(session="s")]) == 101


@program
async def review_rememberer(s: Session, n: int) -> int:
    for number in range(n):
        await s.remember(f"k{number}", number, scope="all")
    return n


@pytest.mark.slow
async def test_all_facts_are_listed() -> None:
    async with perdure.open("memory:") as rt:
        await rt.start(review_rememberer.bind(n=1001), id="s")
        await rt.run("s")
        assert len([one async for one in rt.facts(scope="all")]) == 1001


@tool(replay="compensate", inflight=0)
def review_make(n: int) -> int:
    return n


@review_make.undo
def _(call: Call, result: int | None, n: int) -> None:
    return None


@program
async def review_maker(s: Session) -> str:
    await s.do(review_make, n=1)
    answer: str = await s.ask("?")
    return answer


async def test_time_travel_to_now_equals_the_rows_after_an_undo() -> None:
    async with perdure.open("memory:") as rt:
        await rt.start(review_maker.bind(), id="s")
        await rt.run("s")
        (effect,) = [one async for one in rt.effects(session="s")]
        undone = await rt.undo(effect.id, by="ada", because="not wanted")
        shown = (await rt.state_at("s")).effects[effect.id]
        assert shown["undo_requested_at"] == undone.undo_requested_at
