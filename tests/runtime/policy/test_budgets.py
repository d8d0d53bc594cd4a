"""Budgets: sums over sessions and processes, waiting until one is lifted, and stopping."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import ConfigError, Session, program
from perdure.runtime.deploy import missing_code
from perdure.runtime.queries import SessionView
from perdure.runtime.runtime import Runtime
from perdure.store.store import open_store
from tests.runtime.support.scripted_world import Outside, World

pytestmark = [pytest.mark.anyio, pytest.mark.databases("sqlite", "postgres")]


def budget(of: str, limit: Any, per: str, *more: str) -> str:
    written = f'"{limit}"' if isinstance(limit, str) else limit
    rows = "\n".join(more)
    return f'default = "allow"\n[[budget]]\nname = "b"\nof = "{of}"\nlimit = {written}\nper = "{per}"\n{rows}\n'


def declare(outside: Outside, **declared: Any) -> Any:
    act = outside.tool(**declared)

    @program
    async def acts(s: Session, first: int, number: int) -> int:
        for n in range(first, first + number):
            await s.do(act, n=n)
        return number

    return acts


async def set_policy(world: World, source: str) -> None:
    """Another process sets the policy."""
    store = open_store(world.target, clock=world.clock)
    try:
        async with Runtime(store, by="grace") as other:
            await other.set_policy(source, because="a test")
    finally:
        store.close()


def waiting(view: SessionView) -> list[tuple[str, str | None]]:
    return [(one.kind, one.ref) for one in view.waits]


BUDGET = [("budget", "budget:b")]


async def controls(world: World) -> list[tuple[str, int, int]]:
    """The controls that fired: how often they refused, and how many sessions wait."""
    return [(one["control"], one["refused"], one["waiting"]) async for one in world.rt.audit("controls")]


async def test_a_session_waits_at_its_budget_until_it_is_raised(world: World) -> None:
    acts = declare(outside := Outside())
    await set_policy(world, budget("effects", 2, "session", 'reason = "Enough."'))
    view = await world.run(acts.bind(first=1, number=3))
    assert (view.status, waiting(view), len(outside.calls)) == ("waiting", BUDGET, 2)
    assert view.waits[0].detail["why"] == "The budget b is used up: 2 of 2 effects per session. Enough."
    assert waiting(await world.again()) == BUDGET
    assert await controls(world) == [("budget:b", 0, 1)]
    await set_policy(world, budget("effects", 3, "session"))
    assert ((await world.again()).result, len(outside.calls)) == (3, 3)
    world.verify()


@pytest.mark.parametrize(("per", "owner", "left"), [("owner", "ada", 0), ("owner", "grace", 2), ("day", "grace", 0)])
async def test_a_budget_is_summed_over_sessions_and_processes(world: World, per: str, owner: str, left: int) -> None:
    acts = declare(outside := Outside())
    await set_policy(world, budget("effects", 2, per))
    assert (await world.run(acts.bind(first=1, number=2), "first", owner="ada")).result == 2
    world.crash()
    view = await world.run(acts.bind(first=5, number=3), "second", owner=owner)
    assert (waiting(view), len(outside.calls)) == (BUDGET, 2 + left)


async def test_the_budget_of_a_day_begins_anew(world: World) -> None:
    acts = declare(Outside())
    await set_policy(world, budget("effects", 1, "owner-day"))
    view = await world.run(acts.bind(first=1, number=2), owner="ada")
    assert waiting(view) == BUDGET
    world.clock.advance(hours=24)
    assert (await world.again()).result == 2


async def test_a_budget_that_stops_ends_the_session(world: World) -> None:
    acts = declare(outside := Outside())
    await set_policy(world, budget("effects", 1, "session", 'answer = "stop"'))
    view = await world.run(acts.bind(first=1, number=2))
    assert (view.status, view.error["type"], len(outside.calls)) == ("failed", "PolicyDenied", 1)
    assert "The budget b is used up" in view.error["message"]
    assert [(one.state, one.rule, one.policy_version) for one in await world.effects()] == [
        ("acknowledged", "default", "1"),
        ("refused", "budget:b", "1"),
    ]
    assert await controls(world) == [("budget:b", 1, 0)]


async def test_only_the_reach_that_a_budget_names_counts(world: World) -> None:
    acts = declare(Outside(), reach="workspace")
    await set_policy(world, budget("effects", 1, "session", 'reach = "outside"'))
    assert (await world.run(acts.bind(first=1, number=3))).result == 3


async def test_an_exemption_lifts_a_budget_while_it_lasts(world: World) -> None:
    acts = declare(Outside())
    await set_policy(world, budget("effects", 1, "session"))
    assert waiting(await world.run(acts.bind(first=1, number=3))) == BUDGET
    await world.rt.grant_exemption("budget:b", session="s", because="a release")
    assert (await world.again()).result == 3


async def test_a_worker_continues_sessions_whose_budget_was_raised(world: World) -> None:
    acts = declare(Outside())
    await set_policy(world, budget("effects", 1, "session"))
    await world.run(acts.bind(first=1, number=2))
    worker = missing_code.MissingCode(world.rt)
    await worker._look(is_new=False)
    assert (await world.rt.get("s")).status == "waiting"
    await set_policy(world, 'default = "allow"\n')
    await worker._look(is_new=False)
    assert (await world.rt.get("s")).status == "ready"


async def test_time_of_a_session_is_counted_from_its_start(world: World) -> None:
    acts = declare(Outside())
    await set_policy(world, budget("time", "1h", "session"))
    assert (await world.run(acts.bind(first=1, number=1), "quick")).result == 1
    started = await world.rt.start(acts.bind(first=2, number=1), id="slow")
    world.clock.advance(hours=2)
    assert waiting(await world.rt.run(started.id)) == BUDGET


@pytest.mark.parametrize("end", ["died early", "died"])
async def test_a_kill_neither_loses_nor_repeats_a_count(world: World, end: str) -> None:
    acts = declare(outside := Outside(end), replay="idempotent", key_ttl="1h")
    await set_policy(world, budget("effects", 1, "session"))
    await world.dies(acts.bind(first=1, number=2))
    world.clock.advance(seconds=60)
    assert waiting(await world.again()) == BUDGET
    assert (len(outside.calls), len(set(outside.keys))) == (2, 1)
    await world.rt.grant_exemption("budget:b", session="s", because="a test")
    assert (await world.again()).result == 2


@pytest.mark.parametrize("covers", [{"session": "s", "uses": 1}, {"tool": "act"}], ids=["uses", "a tool"])
async def test_an_exemption_from_a_budget_counts_no_calls(world: World, covers: dict[str, Any]) -> None:
    """Nothing would count the uses, so one use would lift the budget until the exemption expires."""
    acts = declare(Outside())
    await set_policy(world, budget("effects", 1, "session"))
    await world.run(acts.bind(first=1, number=3))
    with pytest.raises(ConfigError, match="no tool and no number of uses"):
        await world.rt.grant_exemption("budget:b", because="a release", **covers)
    assert waiting(await world.again()) == BUDGET
