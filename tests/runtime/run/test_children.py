"""Children: started once, their results typed, their ends told."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import Conflict, Session, SessionFailed, faults, program
from perdure.errors import StoreUnavailable
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import session as sessions
from perdure.store.moves import session_end
from tests.runtime.support.scripted_world import Outside, World

pytestmark = pytest.mark.databases("sqlite", "postgres")


@dataclass
class ChildResult:
    n: int


def family(outside: Outside, *, asks: bool = False, id: str | None = None) -> tuple[Any, Any]:
    act = outside.tool()

    @program
    async def young(s: Session, n: int) -> ChildResult:
        if asks:
            await s.ask("may I?")
        if n < 0:
            raise ValueError("no")
        await s.do(act, n=n)
        return ChildResult(n)

    @program
    async def old(s: Session, n: int) -> list[Any]:
        try:
            found = await s.child(young.bind(n=n), id=id)
        except SessionFailed as error:
            return ["failed", error.details["error"]["type"]]
        return [type(found).__name__, found.n]

    return old, young


async def test_a_child_is_started_once_and_its_result_is_typed(world: World) -> None:
    outside = Outside()
    old, _ = family(outside)
    view = await world.run(old.bind(n=3))
    assert (view.result, len(outside.calls)) == (["ChildResult", 3], 1)
    assert len([one async for one in world.rt.sessions()]) == 2


async def test_a_child_that_fails_raises_in_its_parent(world: World) -> None:
    old, _ = family(Outside())
    assert (await world.run(old.bind(n=-1))).result == ["failed", "ValueError"]


async def test_a_parent_waits_while_its_child_waits_for_a_person(world: World) -> None:
    outside = Outside()
    old, _ = family(outside, asks=True, id="the-child")
    view = await world.run(old.bind(n=3))
    assert [one.kind for one in view.waits] == ["child"]
    world.crash()
    (asked,) = (await world.rt.get("the-child")).waits
    await world.rt.answer(asked.id, "yes")
    view = await world.again()
    assert (view.result, len(outside.calls)) == (["ChildResult", 3], 1)


async def test_a_child_that_finished_before_its_parent_waits_is_found(world: World) -> None:
    outside = Outside()
    old, _ = family(outside, asks=True, id="the-child")
    await world.run(old.bind(n=3))
    (asked,) = (await world.rt.get("the-child")).waits
    await world.rt.answer(asked.id, "yes")
    real, world.rt.requests.wake_parent = world.rt.requests.wake_parent, tell_no_one  # type: ignore[method-assign]
    assert (await world.rt.run("the-child")).status == "done"
    assert (await world.rt.get("s")).status == "waiting"
    world.rt.requests.wake_parent = real  # type: ignore[method-assign]
    world.crash()
    assert ((await world.again()).result, len(outside.calls)) == (["ChildResult", 3], 1)


async def tell_no_one(uid: str) -> None:
    """The process dies before it can notify its parent."""


@pytest.mark.parametrize("place", range(1, 10))
async def test_a_child_is_started_once_wherever_its_parent_dies(world: World, place: int) -> None:
    from perdure.errors import StoreUnavailable

    outside = Outside()
    old, _ = family(outside)
    await world.rt.start(old.bind(n=3), id="s")
    left = [place]

    def dead(point: str) -> None:
        left[0] -= point == "commit.before"
        if left[0] <= 0 and point in ("move.before", "commit.before"):
            raise StoreUnavailable("This process is dead.")

    faults.arm(dead)
    try:
        await world.again()
    except StoreUnavailable:
        pass
    world.crash()
    view = await world.again()
    if view.waits:  # it died during the child's one act, and a person must settle it
        (child,) = [one async for one in world.rt.sessions() if one.id != "s"]
        (doubtful,) = [one async for one in world.rt.effects(session=child.id)]
        await world.rt.settle(doubtful.id, "happened", by="ada", because="seen", result=7)
        view = await world.again()
    assert (view.result, len(set(outside.keys))) == (["ChildResult", 3], 1)
    assert len([one async for one in world.rt.sessions()]) == 2


async def test_cancelling_a_parent_asks_its_children_to_stop(world: World) -> None:
    old, _ = family(Outside(), asks=True, id="the-child")
    await world.run(old.bind(n=3))
    await world.rt.cancel("s")
    assert (await world.rt.get("the-child")).cancel_requested_at is not None
    assert (await world.again()).status == "cancelled"
    assert (await world.rt.run("the-child")).status == "cancelled"


@pytest.mark.databases("memory")
async def test_an_unrelated_session_is_not_accepted_as_a_child(world: World) -> None:
    old, young = family(Outside(), id="taken")
    await world.run(young.bind(n=3), "taken")
    view = await world.run(old.bind(n=3))
    assert (view.status, view.error["type"]) == ("failed", Conflict.__name__)


@pytest.mark.databases("memory")
async def test_children_may_have_children_of_their_own_at_any_depth(world: World) -> None:
    @program
    async def deep(s: Session, n: int) -> int:
        return 0 if n == 0 else 1 + await s.child(deep.bind(n=n - 1))

    assert (await world.run(deep.bind(n=12), "s" * 180)).result == 12


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


NAMES = itertools.count()


@program
async def review_namer(s: Session) -> str:
    return await s.child(review_kid.bind(), id=f"kid-{next(NAMES)}")


async def test_a_started_child_is_found_again_after_a_rename(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    create, state = sessions.create, {"dead": False}

    def create_and_die(*args: Any, **kwargs: Any) -> Move[Any]:
        move = create(*args, **kwargs)
        run = move.run

        def last(tx: StoreTransaction) -> Any:
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
