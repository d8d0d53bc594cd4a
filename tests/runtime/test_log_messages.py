"""What the runtime logs about runs, recovery, leases and a store that is away."""

from __future__ import annotations

import logging

import pytest

from perdure import Session, StoreUnavailable, program
from perdure.runtime.workers.heartbeat import Heartbeat
from perdure.runtime.workers.worker import Worker
from perdure.store.moves import session as sessions
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.runtime.support.scripted_world import Outside, World
from tests.store.support.sessions import a_holder, a_session

pytestmark = [pytest.mark.anyio, pytest.mark.databases("sqlite")]


async def test_recovery_decision_and_late_outcome_are_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    outside = Outside("died")
    act = outside.tool("probe")

    @program
    async def acts(s: Session) -> int:
        return await s.do(act, n=1)

    caplog.set_level(logging.INFO, logger="perdure")
    await world.dies(acts.bind())
    assert "waits for the store [store-unavailable]" in caplog.text
    caplog.clear()
    assert (await world.again()).status == "done"
    effect = await world.effect()
    assert f"effect {effect.id} ({effect.tool}): recovery: probe." in caplog.text
    assert f"Session {effect.session_uid}: the run has ended, the session is done." in caplog.text


def test_lost_lease_is_a_warning(store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    holder = a_holder(store, a_session(store).uid)
    store.write_now(sessions.release(holder))
    Heartbeat(store, 15_000_000)._round([(holder, lambda error: None)])
    assert [(one.levelname, one.name.partition(".")[0]) for one in caplog.records] == [("WARNING", "perdure")]
    assert holder.uid in caplog.text


async def test_worker_logs_an_outage_and_a_session_that_it_cannot_run(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    @program
    async def waits(s: Session) -> None:
        await s.ask("Now?")

    async def fail(uid: str) -> None:
        raise ZeroDivisionError("a secret")

    caplog.set_level(logging.INFO, logger="perdure")
    session = await world.rt.start(waits.bind(), id="s")
    worker = Worker(world.rt, only=session.uid)
    worker._await_store(StoreUnavailable("The server is away."), None)
    monkeypatch.setattr(world.rt, "run", fail)
    await worker.run()
    assert "The store is unavailable [store-unavailable]" in caplog.text
    assert "The store is available again." in caplog.text
    assert f"Session {session.uid}: it cannot be run here (ZeroDivisionError)." in caplog.text
    assert "a secret" not in caplog.text
