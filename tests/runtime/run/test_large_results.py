"""Large results of sessions and their children."""

from __future__ import annotations

from pathlib import Path

import perdure
from perdure import Session, program
from perdure.store.moves import artifact
from perdure.store.moves import session as sessions


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
