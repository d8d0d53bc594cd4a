"""`rt.effect`, `rt.artifacts` and `rt.artifact` on both databases."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from perdure import Conflict, Damaged, NotFound, Session, program, tool
from perdure.runtime.run.large_values import LIMIT
from tests.runtime.support.scripted_world import World

pytestmark = pytest.mark.databases("sqlite", "postgres")


@tool
def repeat(text: str, times: int) -> str:
    return text * times


@program
async def repeats(s: Session, text: str, times: int) -> int:
    return len(await s.do(repeat, text=text, times=times))


@pytest.fixture
def stored(world: World, folder: Path) -> World:
    """A runtime that stores artifacts in a folder, as several workers of a PostgreSQL store do."""
    world.rt.close()
    world.rt = world.open(artifacts=folder / "shared")
    return world


async def test_effect_has_its_arguments_attempts_and_result(stored: World) -> None:
    text = "x" * LIMIT
    assert (await stored.run(repeats.bind(text=text, times=2))).result == 2 * LIMIT
    planned = await stored.effect()
    assert planned.artifact is not None  # the result is too large for its row
    found = await stored.rt.effect(planned.id[:-1], session="s")
    assert (found.session, found.effect.intent) == ("s", {"text": text, "times": 2})
    assert [one.outcome for one in found.attempts] == ["acknowledged"]
    assert (found.result, found.output, found.unreadable) == (2 * text, 2 * text, ())


async def test_effect_without_its_artifacts_names_what_is_missing(stored: World, folder: Path) -> None:
    await stored.run(repeats.bind(text="x" * LIMIT, times=2))
    id = (await stored.effect()).id
    for path in (folder / "shared").glob("??/*"):
        path.unlink()
    found = await stored.rt.effect(id)
    assert (found.result, found.output) == (None, None)
    assert [one.partition(" cannot")[0] for one in found.unreadable] == ["The arguments", "The result"]


async def test_effect_is_found_only_in_the_session_that_is_named(stored: World) -> None:
    await stored.run(repeats.bind(text="a", times=2))
    await stored.run(repeats.bind(text="b", times=2), id="other")
    id = (await stored.effect()).id
    with pytest.raises(NotFound):
        await stored.rt.effect(id, session="other")
    with pytest.raises(NotFound):
        await stored.rt.effect("")


async def test_artifact_is_read_by_a_unique_prefix_and_checked(stored: World, folder: Path) -> None:
    await stored.run(repeats.bind(text="x" * LIMIT, times=2))
    found = [one async for one in stored.rt.artifacts(session="s")]
    assert len(found) == 2  # the arguments of the session and of the effect are equal and stored once; the result
    assert found == [one async for one in stored.rt.artifacts()]
    digest = max(found, key=lambda one: one.size).digest
    assert await stored.rt.artifact(digest[:12]) == b'"' + b"x" * 2 * LIMIT + b'"'
    with pytest.raises(NotFound):
        await stored.rt.artifact("")
    path = folder / "shared" / digest[:2] / digest
    path.chmod(0o600)
    path.write_bytes(b"changed")
    with pytest.raises(Damaged):
        await stored.rt.artifact(digest)


async def test_prefix_of_several_artifacts_is_refused(stored: World) -> None:
    for n in range(17):  # more than there are first characters of a digest
        await stored.run(repeats.bind(text="x" * LIMIT, times=n), id=f"s{n}")
    digests = sorted({one.digest async for one in stored.rt.artifacts()})
    shared = next(one[0] for one, two in pairwise(digests) if one[0] == two[0])
    with pytest.raises(Conflict):
        await stored.rt.artifact(shared)
