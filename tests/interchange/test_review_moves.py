"""Moves that leave something behind: what a second reader of the interchange found."""

from __future__ import annotations

from pathlib import Path

import pytest

import perdure
from perdure import Session, program, tool
from perdure.errors import IllegalMove
from perdure.interchange.export import export


@tool(leases=("branch:{branch}",), inflight=0)
def review_push(branch: str) -> int:
    raise OSError("the line was cut")


@program
async def review_pusher(s: Session, branch: str) -> int:
    return await s.do(review_push, branch=branch)


async def test_a_session_whose_effect_still_holds_a_resource_is_not_moved_away(folder: Path) -> None:
    async with perdure.open(folder / "a.db") as rt:
        first = await rt.start(review_pusher.bind(branch="main"), id="first")
        await rt.run("first")
        (effect,) = [one async for one in rt.effects(session="first")]
        await rt.settle(effect.id, "absent", by="ada", because="looked")
        try:
            export(rt.store, first.uid, folder / "first.zip", by="ada", move=True)
        except IllegalMove:
            return
        await rt.start(review_pusher.bind(branch="main"), id="second")
        assert "lease" not in {one.kind for one in (await rt.run("second")).waits}


@tool
def review_moved_lost(n: int) -> int:
    raise OSError("the line was cut")


@program
async def review_moved(s: Session) -> int:
    return await s.do(review_moved_lost, n=1)


async def test_a_session_whose_branch_waits_for_its_effect_is_not_moved_away(folder: Path) -> None:
    async with perdure.open(folder / "a.db") as rt:
        await rt.start(review_moved.bind(), id="parent")
        parent = await rt.run("parent")
        branch = await rt.fork("parent")
        assert [one.kind for one in (await rt.run(branch.id)).waits] == ["effect"]
        with pytest.raises(IllegalMove):
            export(rt.store, parent.uid, folder / "parent.zip", by="ada", move=True)
