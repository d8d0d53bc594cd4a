"""The heartbeat of a long tool is recorded with its progress, and the session does not count as stuck."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from perdure import Call, Session, program, tool
from perdure.clock import SECOND
from perdure.control.doctor.stuck_sessions import SILENCE, stuck
from perdure.domain.effect import Attempt
from perdure.errors import StoreUnavailable
from perdure.runtime.definitions.tool import PROGRESS_LIMIT
from perdure.runtime.ledger.progress_report import INTERVAL
from perdure.store.moves import effect
from perdure.store.moves.attempt import attempts_of
from perdure.testing.proxy import wait_until
from tests.runtime.support.scripted_world import World

pytestmark = pytest.mark.databases("sqlite", "postgres")


def recorded(world: World, uid: str) -> Attempt:
    """The attempt of the only effect."""
    (found,) = world.rt.store.read_now(effect.of_session, uid)
    return world.rt.store.read_now(attempts_of, uid, found.id)[-1]


async def test_progress_is_recorded_at_most_every_ten_seconds(world: World) -> None:
    seen: list[str | None] = []

    @tool
    def long(call: Call) -> str:
        uid = world.rt.store.read_now(lambda tx: tx.one("session.get_by_id", id="s"))[0]  # type: ignore[index]
        call.heartbeat("1 of 3")
        wait_until(lambda: recorded(world, uid).progress == "1 of 3", "the first text is recorded")
        call.heartbeat("2 of 3")
        world.clock.advance(seconds=INTERVAL / SECOND)
        call.heartbeat("\ud800" + "x" * 1000)
        wait_until(lambda: recorded(world, uid).progress != "1 of 3", "the next text is recorded")
        seen.append(recorded(world, uid).progress)
        world.clock.advance(seconds=INTERVAL / SECOND)
        call.heartbeat()
        wait_until(lambda: recorded(world, uid).heartbeat_at == world.clock.now(), "a heartbeat without a text")
        seen.append(recorded(world, uid).progress)
        assert world.rt.store.read_now(stuck, world.clock.now() + SILENCE - SECOND) == []
        return "done"

    @program
    async def acts(s: Session) -> str:
        return await s.do(long)

    view = await world.run(acts.bind())
    assert view.result == "done", view.error
    assert seen[0] is not None
    assert len(seen[0]) == PROGRESS_LIMIT
    assert seen[1] == seen[0]  # a heartbeat without a text keeps the last one
    world.verify()


async def test_tool_does_not_wait_for_the_record_of_its_heartbeat(world: World, monkeypatch: Any) -> None:
    """The store never answers the report; the tool returns all the same, and reports nothing more meanwhile."""
    store, sent, submit = world.rt.store, [], world.rt.store.submit

    def keep(move: Any) -> Any:
        if not move.name.endswith("report"):
            return submit(move)
        sent.append(move)
        if len(sent) == 1:
            raise StoreUnavailable("The store is away.")
        return type("Unanswered", (), {"is_answered": False})()

    monkeypatch.setattr(store, "submit", keep)

    @tool
    def long(call: Call) -> int:
        for number in range(4):
            call.heartbeat(f"{number}")
            world.clock.advance(seconds=INTERVAL / SECOND)
        return threading.get_ident()

    @program
    async def acts(s: Session) -> int:
        return await s.do(long)

    assert (await world.run(acts.bind())).status == "done"
    assert len(sent) == 2
