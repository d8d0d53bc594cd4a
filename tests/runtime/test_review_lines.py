"""Children, branches and lines side by side: what a second reader of the runtime found."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

import perdure
from perdure import Session, faults, program, tool
from perdure.errors import StoreUnavailable
from perdure.store.move import Move, Transaction
from perdure.store.moves import session as sessions
from perdure.store.moves import session_end
from perdure.testing import ManualClock
from tests.runtime.world import World

pytestmark = pytest.mark.databases("sqlite", "postgres")


@program
async def review_kid(s: Session) -> str:
    answer: str = await s.ask("ok?")
    return answer


@program
async def review_parent(s: Session) -> str:
    return await s.child(review_kid.bind(), id="kid")


async def test_a_cancel_reaches_children_although_the_canceller_died(world: World) -> None:
    view = await world.run(review_parent.bind())
    await world.rt.store.write(session_end.cancel(view.uid, "ada"))  # and here `cancel` was killed
    assert (await world.again()).status == "cancelled"
    assert (await world.rt.get("kid")).cancel_requested_at is not None


@tool
def review_kid_lost(n: int) -> int:
    raise OSError("the line was cut")


@program
async def review_doubtful_kid(s: Session) -> int:
    return await s.do(review_kid_lost, n=1)


@program
async def review_doubtful_parent(s: Session) -> int:
    return await s.child(review_doubtful_kid.bind())


async def test_a_branch_survives_a_cancelled_parent_with_a_child_in_doubt(world: World) -> None:
    await world.run(review_doubtful_parent.bind())
    branch = await world.rt.fork("s")
    await world.rt.cancel("s")
    assert (await world.again()).status == "cancelled"
    view = await world.rt.run(branch.id)
    assert (view.status, view.error) == ("waiting", None)


NAMES = itertools.count()


@program
async def review_namer(s: Session) -> str:
    return await s.child(review_kid.bind(), id=f"kid-{next(NAMES)}")


async def test_a_started_child_is_found_again_after_a_rename(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, state = sessions.create, {"dead": False}

    def create_and_die(*args: Any, **kwargs: Any) -> Move[Any]:
        move = create(*args, **kwargs)
        run = move.run

        def last(tx: Transaction) -> Any:
            tx.after_commit.append(lambda: state.update(dead=True))
            return run(tx)

        move.run = last
        return move

    def dead(point: str) -> None:
        if state["dead"] and point == "move.before":
            raise StoreUnavailable("This process is dead.")

    await world.rt.start(review_namer.bind(), id="s")
    monkeypatch.setattr(sessions, "create", create_and_die)
    faults.arm(dead)
    with pytest.raises(StoreUnavailable):
        await world.again()
    monkeypatch.undo()
    world.crash()
    view = await world.again()
    assert (view.status, view.error) == ("waiting", None)


DONE: list[int] = []


@tool(replay="idempotent")
def review_mark(n: int) -> int:
    DONE.append(n)
    return n


async def review_rest() -> None:
    await asyncio.sleep(0.2)


@program
async def review_aside(s: Session, seen: bool) -> str:
    async def ask() -> str:
        async with s.scope("aside"):
            answer: str = await s.ask("?")
            return answer

    asked = asyncio.create_task(ask())
    await (s.step("rest", review_rest) if seen else review_rest())
    await s.do(review_mark, 5)
    return await asked


@pytest.mark.slow
@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("seen", [True, False])
async def test_a_concurrent_question_does_not_block_steps(
    target: str, clock: ManualClock, seen: bool
) -> None:
    """A future does not say who will complete it: the program's own line counts as waiting for the lines aside."""
    DONE.clear()
    async with perdure.open(target, clock=clock) as rt:
        await rt.start(review_aside.bind(seen=seen), id="s")
        view = await rt.run("s")
        assert (view.status, DONE) == ("waiting", [5] if seen else [])
        await rt.answer(view.waits[0].id, "yes")
        assert ((await rt.run("s")).result, DONE) == ("yes", [5])
