"""`s.now()`, `s.uuid()` and `s.random()` are recorded: the same in every run."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from perdure import Session, program
from tests.runtime.support.scripted_world import World, die

SEEN: list[list[object]] = []


@program
async def draws_values(s: Session, dies: bool = False) -> str:
    drawn = [await s.now(), await s.uuid(), await s.uuid(), await s.random(), await s.random()]
    async with s.scope("aside"):
        drawn.append(await s.uuid())
    SEEN.append(drawn)
    if dies and len(SEEN) == 1:
        die()
    return str(await s.ask("Continue?"))


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


@pytest.mark.databases("sqlite", "files", "postgres")
async def test_recorded_values_are_the_same_after_a_kill(world: World) -> None:
    before = world.clock.now()
    await world.dies(draws_values.bind(dies=True))
    view = await world.again()
    world.clock.advance(seconds=86400)
    await world.rt.answer(view.waits[0].id, "yes")
    assert (await world.again()).result == "yes"
    first, second, third = SEEN
    assert first == second == third
    now, *identifiers = first
    assert isinstance(now, datetime)
    assert now == datetime.fromtimestamp(before / 1_000_000, UTC)
    assert all(isinstance(one, UUID | float) for one in identifiers)
    assert len(set(identifiers)) == 5
    world.verify()


@pytest.mark.databases("memory")
async def test_recorded_values_differ_between_sessions_and_are_inherited_by_forks(world: World) -> None:
    await world.run(draws_values.bind(), "one")
    await world.run(draws_values.bind(), "two")
    assert not set(SEEN[0][1:]) & set(SEEN[1][1:])
    fork = await world.rt.fork("one")
    await world.rt.run(fork.id)
    assert SEEN[2] == SEEN[0]


@pytest.mark.databases("memory")
async def test_random_numbers_are_fractions(world: World) -> None:
    @program
    async def many(s: Session) -> list[float]:
        return [await s.random() for _ in range(100)]

    drawn = await world.rt.result((await world.run(many.bind())).id)
    assert all(0 <= one < 1 for one in drawn)
    assert max(drawn) - min(drawn) > 0.5
