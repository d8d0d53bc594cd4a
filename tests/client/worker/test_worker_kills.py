"""A worker is killed around every move that it makes through a service, and during its acts: every effect happens once,
and a person is asked only where the outcome cannot be known."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.client.worker.runtime import open_worker_runtime
from perdure.domain.wait import Wait, WaitKind
from perdure.runtime.definitions.program import Bound
from perdure.store.moves import effect, session, wait
from perdure.store.store import Store
from perdure.testing import Sink, SinkClient
from tests.client.worker.support import remote_app
from tests.client.worker.support.moments import Interceptor, Moment, bodies, start_worker
from tests.seed import sample
from tests.server.support.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.databases("sqlite", "postgres")]
UNKNOWN_AFTER = ("effect.plan_and_dispatch", "effect.settle")  # an act lies between these two
PATIENCE = 300


class Trials:
    """Runs a session with a worker that is killed, and then with another one."""

    def __init__(self, service: Service, interceptor: Interceptor, token: str, folder: Path, sink: Sink) -> None:
        self.service = service
        self.interceptor = interceptor
        self.token = token
        self.folder = folder
        self.sink = sink
        self.number = 0

    def run(self, bind: Any, kill_at: Moment | None, fault: str | None = None) -> tuple[str, SinkClient]:
        """One trial; returns the id of its session and what was done outside."""
        self.number += 1
        id, outside = f"t{self.number}", self.sink.run()
        if fault is not None:
            outside.mode(fault=fault)
        self.interceptor.begin(kill_at)
        bound: Bound[Any] = bind(id)
        self.service.wait(self.service.runtime.start(bound, id=id, queue=id))
        words = ("--queues", id, "--idle", "0")
        victim = start_worker(self.service.address, self.token, self.folder, *words, PERDURE_SINK=outside.url)
        self.interceptor.victim = victim
        assert victim.wait(PATIENCE) is not None
        if kill_at is None and fault is None:
            return id, outside
        self.interceptor.kill_at = None
        if fault is not None:
            outside.mode()
        asyncio.run(self._finish(id, outside))
        return id, outside

    async def _finish(self, id: str, outside: SinkClient) -> None:
        """Another worker, in this process, runs the session to its end; questions are answered by what is outside."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PERDURE_SINK", outside.url)
            runtime = await asyncio.to_thread(
                open_worker_runtime, self.service.address, self.token, artifacts=self.folder / "artifacts"
            )
            async with runtime, perdure.Worker(runtime, queues=[id]), asyncio.timeout(PATIENCE):
                await self._until_rest(id, outside)

    async def _until_rest(self, id: str, outside: SinkClient) -> None:
        store = self.service.store
        while True:
            seen = store.wakeups.version
            found = store.read_now(session.find, id)
            waits = store.read_now(wait.open_of_session, found.uid)
            rests = found.status == "waiting" and [one.kind for one in waits] == [WaitKind.INPUT]
            if rests or found.status in ("done", "failed"):
                return
            for one in waits:
                if one.kind == WaitKind.TIMER:
                    await self.service.runtime.driver.fire(one)
                if one.kind == WaitKind.DOUBT:
                    await self._answer(found.uid, one, outside)
            await store.wakeups.wait(seen, found.uid, 0.1)

    async def _answer(self, uid: str, asked: Wait, outside: SinkClient) -> None:
        assert asked.ref is not None
        known = self.service.store.read_now(effect.get, uid, asked.ref)
        assert known.tool == "remote_escalate", known
        assert self.interceptor.killed in (*UNKNOWN_AFTER, None)
        there = any(outside.find(key=known.idempotency_key))
        settle = self.service.runtime.settle
        if there:
            await settle(known.id, "happened", by="ada", because="I looked", result=known.intent["page"])
        else:
            await settle(known.id, "absent", by="ada", because="I looked")


@pytest.fixture
def trials(work_service: Service, interceptor: Interceptor, token: str, folder: Path, sink: Sink) -> Trials:
    return Trials(work_service, interceptor, token, folder, sink)


def work(id: str) -> Bound[Any]:
    return remote_app.remote_work.bind(page=id)


def agent(id: str) -> Bound[Any]:
    return remote_app.remote_agent.bind(id)


def judge(store: Store, id: str, outside: SinkClient, *names: str) -> list[str]:
    """What is wrong after a trial."""
    expected = {f'{{"{name}":"{id}"}}': 1 for name in names}
    if "probe" in names:
        expected[f'{{"idempotent":"{id} of the child"}}'] = 1
    found, status = bodies(outside), store.read_now(session.find, id).status
    wrong = [] if found == expected else [f"{id}: {found} instead of {expected}"]
    return wrong if status in ("done", "waiting") else [*wrong, f"{id} is {status}"]


def test_every_effect_happens_once_when_the_worker_is_killed_around_a_move(trials: Trials, real_store: Store) -> None:
    id, outside = trials.run(work, None)
    assert judge(real_store, id, outside, *remote_app.EXPECTED) == []
    moments = [Moment(n + 1, when) for n in range(len(trials.interceptor.moves)) for when in ("before", "after")]
    wrong: list[str] = []
    for one in sample(moments, 6):
        id, outside = trials.run(work, one)
        assert trials.interceptor.killed is not None, one
        wrong += [
            f"{one} {trials.interceptor.killed}: {why}" for why in judge(real_store, id, outside, *remote_app.EXPECTED)
        ]
    assert wrong == []


@pytest.mark.parametrize("fault", ["kill_before", "kill_after"])
def test_every_effect_happens_once_when_the_worker_is_killed_in_an_act(
    fault: str, trials: Trials, real_store: Store
) -> None:
    id, outside = trials.run(work, None, fault)
    assert judge(real_store, id, outside, *remote_app.EXPECTED) == []


def test_an_agent_calls_its_tool_once_when_the_worker_is_killed(trials: Trials, real_store: Store) -> None:
    id, outside = trials.run(agent, None)
    assert judge(real_store, id, outside, "idempotent") == []
    moments = [Moment(n + 1, when) for n in range(len(trials.interceptor.moves)) for when in ("before", "after")]
    wrong: list[str] = []
    for one in sample(moments, 3):
        id, outside = trials.run(agent, one)
        wrong += [f"{one} {trials.interceptor.killed}: {why}" for why in judge(real_store, id, outside, "idempotent")]
    assert wrong == []
