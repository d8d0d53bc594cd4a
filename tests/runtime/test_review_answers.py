"""What a caller is told: lists, time travel, limits and messages, as a second reader met them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from perdure import Call, Gate, Session, program, tool
from perdure.store.moves import artifact
from perdure.store.moves import session as sessions


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


@program
async def review_large(s: Session) -> str:
    return "x" * 100_000


async def test_the_result_of_a_session_above_64_kib_is_an_artifact(folder: Path) -> None:
    async with perdure.open(folder / "a.db") as rt:
        await rt.start(review_large.bind(), id="s")
        await rt.run("s")
        row = await rt.store.read(sessions.get_by_id, "s")
        assert len(str(row.result)) < 64 * 1024
        assert [len(str(line.body)) > 64 * 1024 async for line in rt.events("s")].count(True) == 0
        assert (await rt.get("s")).result == await rt.result("s") == "x" * 100_000


@program
async def review_large_kid(s: Session) -> dict[str, str]:
    return {"z": "x" * 100_000, "a": "first comes z"}


@program
async def review_large_parent(s: Session) -> list[str]:
    made = await s.child(review_large_kid.bind(), id="kid")
    return list(made)


async def test_a_child_s_large_result_belongs_to_its_parent_too(folder: Path) -> None:
    async with perdure.open(folder / "a.db") as rt:
        await rt.start(review_large_parent.bind(), id="s")
        view = await rt.run("s")
        assert view.result == ["z", "a"]
        assert [len(str(line.body)) > 64 * 1024 async for line in rt.events("s")].count(True) == 0
        kept = [(await rt.store.read(artifact.of_session, (await rt.get(name)).uid)) for name in ("s", "kid")]
        assert [one.digest for one in kept[0]] == [one.digest for one in kept[1]] != []


@program
async def review_posing(s: Session) -> dict[str, str]:
    return {":artifact": "0" * 64}


async def test_a_result_cannot_pose_as_one_that_is_kept_elsewhere(folder: Path) -> None:
    async with perdure.open(folder / "a.db") as rt:
        await rt.start(review_posing.bind(), id="s")
        view = await rt.run("s")
        assert (view.status, view.error["code"]) == ("failed", "config")


@program
async def review_counter(s: Session) -> int:
    return await s.step("count", len, [1, 2, 3])


def test_a_step_may_be_a_function_whose_parameters_have_no_names() -> None:
    assert perdure.run(review_counter.bind(), store="memory:") == 3


AWAITABLE = """
import perdure

async def fetched(n: int) -> int:
    return n

@perdure.program
async def review_lambda(s: perdure.Session) -> int:
    return await s.step("fetch", lambda: fetched(3))  # mypy strict accepts it

print(perdure.run(review_lambda.bind(), store="memory:"))
"""

IN_A_LOOP = """
import asyncio
import perdure

@perdure.program
async def review_inside(s: perdure.Session) -> int:
    return 1

async def main() -> None:
    try:
        perdure.run(review_inside.bind(), store="memory:")
    except perdure.ConfigError as error:
        print(error.code)

asyncio.run(main())
"""


def said_by(script: str) -> str:
    """What a script prints; in a process of its own, because a coroutine that nobody awaits warns when it likes."""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False).stdout.strip()


@pytest.mark.slow
def test_a_step_that_returns_an_awaitable_is_awaited() -> None:
    assert said_by(AWAITABLE) == "3"


@pytest.mark.slow
def test_run_inside_a_running_loop_explains_what_to_do() -> None:
    assert said_by(IN_A_LOOP) == "config"


@tool(gate=Gate("review-merge"))
def review_merge(n: int) -> int:
    return n


@program
async def review_merger(s: Session) -> int:
    return await s.do(review_merge, n=1)


async def test_the_owner_of_a_session_may_not_approve_what_it_asks_for() -> None:
    async with perdure.open("memory:", by="ada") as rt:
        await rt.start(review_merger.bind(), id="s", owner="ada")
        await rt.run("s")
        (asked,) = [one async for one in rt.approvals(decision="waiting")]
        with pytest.raises(perdure.IllegalMove):
            await rt.approve(asked.id, by="ada", because="mine")


@program
async def review_unbound(s: Session) -> None:
    await s.child(review_counter)  # type: ignore[arg-type]


async def test_a_program_without_arguments_gets_a_hint_about_bind() -> None:
    async with perdure.open("memory:") as rt:
        with pytest.raises(perdure.ConfigError) as told:
            await rt.start(review_unbound)  # type: ignore[arg-type]
        assert "review_unbound.bind(" in told.value.hint
        await rt.start(review_unbound.bind(), id="s")
        assert (await rt.run("s")).error["code"] == "config"
