"""Sessions are taken from a worker only when it is certainly dead, or when its lease has ended."""

from __future__ import annotations

import msgspec
import pytest

import perdure
from perdure.domain.worker import WorkerRecord
from perdure.errors import LeaseHeld
from perdure.runtime.runtime import Runtime
from perdure.runtime.services.leases import Leases
from perdure.runtime.workers.liveness import locks_of_store
from perdure.store.moves import worker
from perdure.store.topics import TIMERS
from tests.store.support.sessions import a_holder, a_session, session_of

pytestmark = pytest.mark.databases("sqlite", "postgres")


@perdure.program
async def lost_lease_program(_s: perdure.Session) -> str:
    return "done"


def other_workers(runtime: Runtime, me: WorkerRecord) -> dict[str, str]:
    """Workers that are dead, alive, or on another host; each holds a session. Returns the uids by the worker."""
    gone = msgspec.structs.replace(me, id="w-gone", pid=2**22 + 1)
    afar = msgspec.structs.replace(me, id="w-afar", host="elsewhere", boot_id="b", start_token="1 m f 2")
    found = {}
    for one in (me, gone, afar):
        runtime.store.write_now(worker.register(one))
        uid = a_session(runtime.store, f"of-{one.id}", program="lost_lease_program", arguments={}).uid
        a_holder(runtime.store, uid, by=one.holder)
        found[one.id] = uid
    return found


async def test_only_a_worker_that_is_certainly_dead_loses_its_sessions(target: str) -> None:
    async with perdure.open(target) as runtime:
        with locks_of_store(runtime.store).enter(runtime.store) as me:
            held = other_workers(runtime, me.worker)
            await Leases(runtime).look()
            status = {id: session_of(runtime.store, uid).status for id, uid in held.items()}
            assert status == {me.id: "running", "w-gone": "ready", "w-afar": "running"}


async def test_direct_run_takes_a_session_only_from_a_dead_worker(target: str) -> None:
    async with perdure.open(target) as runtime:
        with locks_of_store(runtime.store).enter(runtime.store) as me:
            other_workers(runtime, me.worker)
            for id in (me.id, "w-afar"):
                with pytest.raises(LeaseHeld):
                    await runtime.run(f"of-{id}")
            assert (await runtime.run("of-w-gone")).status == "done"


async def test_other_services_look_again_after_the_death_of_a_worker(target: str) -> None:
    """A process may be killed after a commit and before its wake-up was sent."""
    async with perdure.open(target) as runtime:
        with locks_of_store(runtime.store).enter(runtime.store) as me:
            other_workers(runtime, me.worker)
            seen = runtime.store.wakeups.version
            await Leases(runtime).look()
            assert runtime.store.wakeups.has_changed(seen, TIMERS)
