"""Attack: who decided what a session does approves it, although the gate bars its requester."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Gate, IllegalMove, Session, program
from perdure.domain.identity import Identity, acting
from perdure.runtime.queries import SessionView
from perdure.store.moves import access, exemption, requester
from tests.runtime.support.people import as_person, register
from tests.runtime.support.scripted_world import Outside, World

pytestmark = pytest.mark.databases("sqlite", "postgres")
SERVICE = Identity("os", "999")


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.fixture
def deploys(world: World, outside: Outside) -> Any:
    """A program whose one effect has a gate. `eve` attacks, and `grace` is another approver."""
    act = outside.tool(gate=Gate("deploy", requester_may_decide=False))
    register(world.rt.store, "eve", "grace")

    @program
    async def deploys(s: Session, n: int = 1, wait: bool = False) -> Any:
        given = await s.receive(int) if wait else n
        return await s.do(act, n=given)

    return deploys


async def scheduled(world: World, bound: Any, by: str = "eve") -> None:
    with as_person(by):
        await world.rt.add_schedule("job", bound, every="10m")


async def tick(world: World) -> str:
    world.clock.advance(seconds=600)
    with acting(SERVICE):
        await world.rt.schedule_handler.handle_due()
    (only,) = [one async for one in world.rt.sessions()]
    return only.id


async def by_tick(world: World, deploys: Any) -> str:
    await scheduled(world, deploys.bind())
    return await tick(world)


async def by_changed_schedule(world: World, deploys: Any) -> str:
    await scheduled(world, deploys.bind(1), by="olga")
    await scheduled(world, deploys.bind(2))
    return await tick(world)


async def by_trigger(world: World, deploys: Any) -> str:
    await scheduled(world, deploys.bind(), by="olga")
    with as_person("eve"):
        return (await world.rt.trigger_schedule("job", by="schedule:job")).id


async def by_backfill(world: World, deploys: Any) -> str:
    await scheduled(world, deploys.bind(), by="olga")
    with as_person("eve"):
        (started,) = await world.rt.backfill("job", "2020-01-01T00:00", "2020-01-01T00:10")
    return started


async def by_debounce(world: World, deploys: Any) -> str:
    for person, n in (("olga", 1), ("eve", 2), ("olga", 2)):
        with as_person(person):
            await world.rt.start(deploys.bind(n), key="k", debounce="10s")
    world.clock.advance(seconds=10)
    (only,) = [one async for one in world.rt.sessions()]
    return only.id


async def by_message(world: World, deploys: Any) -> str:
    with as_person("olga"):
        made = await world.rt.start(deploys.bind(wait=True))
    with as_person("eve"):
        await world.rt.send(made.id, 2)
    return made.id


WAYS = (by_tick, by_changed_schedule, by_trigger, by_backfill, by_debounce, by_message)


async def asks(world: World, id: str) -> SessionView:
    with acting(SERVICE):
        return await world.rt.run(id)


@pytest.mark.parametrize("way", WAYS, ids=[one.__name__ for one in WAYS])
async def test_who_decided_what_a_session_does_may_not_approve_it(
    world: World, outside: Outside, deploys: Any, way: Any
) -> None:
    id = await way(world, deploys)
    (asked,) = (await asks(world, id)).waits
    with as_person("eve"), pytest.raises(IllegalMove, match="requested approval"):
        await world.rt.approve(asked.id, by="eve", because="mine")
    assert ((await asks(world, id)).status, outside.calls) == ("waiting", [])
    with as_person("grace"):
        await world.rt.approve(asked.id, by="grace", because="seen")
    assert ((await asks(world, id)).status, len(outside.calls)) == ("done", 1)
    world.verify(id)


@pytest.mark.parametrize("way", WAYS, ids=[one.__name__ for one in WAYS])
async def test_who_revoked_the_token_of_a_request_may_not_approve_it(
    world: World, outside: Outside, deploys: Any, way: Any
) -> None:
    id = await way(world, deploys)
    with as_person("olga"):
        await world.rt.set_principal("eve", logins=["token:other"])
        await world.rt.remove_principal("eve", login="token:eve")  # as when eve revokes that token
    (asked,) = (await asks(world, id)).waits
    with as_person("other"), pytest.raises(IllegalMove, match="requested approval"):
        await world.rt.approve(asked.id, by="eve", because="mine")
    assert ((await asks(world, id)).status, outside.calls) == ("waiting", [])


async def test_the_service_that_handles_a_tick_requests_nothing(world: World, deploys: Any) -> None:
    uid = (await world.rt.get(await by_tick(world, deploys))).uid
    assert str(SERVICE) not in await world.rt.store.read(requester.requesters, uid)


async def test_messages_make_requesters_only_when_they_were_read(world: World, deploys: Any) -> None:
    with as_person("olga"):
        uid = (await world.rt.start(deploys.bind())).uid
    with as_person("eve"):
        await world.rt.send(uid, 2)
    assert "token:eve" not in await world.rt.store.read(requester.requesters, uid)


async def test_an_owner_who_sent_a_message_is_not_independent_of_the_session(world: World, deploys: Any) -> None:
    with as_person("olga"):
        await world.rt.set_principal("eve", roles=["owner"])
    uid = (await world.rt.get(await by_message(world, deploys))).uid
    assert await world.rt.store.read(exemption.is_independent_owner, "token:eve", uid)
    await asks(world, uid)
    assert not await world.rt.store.read(exemption.is_independent_owner, "token:eve", uid)


async def test_reads_of_who_only_sent_a_message_are_logged(world: World, deploys: Any) -> None:
    uid = (await world.rt.get(await by_message(world, deploys))).uid
    await asks(world, uid)
    with as_person("eve"):
        assert await world.rt.store.write(access.note(access.OWN, uid))
    with as_person("olga"):
        assert not await world.rt.store.write(access.note(access.OWN, uid))
