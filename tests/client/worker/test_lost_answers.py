"""The service is killed, and connections are cut between a move's commit and its answer: nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import perdure
from perdure.domain.principal import Role
from perdure.domain.wait import WaitKind
from perdure.testing import Sink
from perdure.testing.proxy import wait_until
from tests.client.support.cutting_proxy import cutting_proxy
from tests.client.support.served import address_of, http_process, kill_again_and_again, token_for
from tests.client.worker.support import remote_app
from tests.client.worker.support.moments import APP, bodies, start_worker
from tests.control.supervisor.support.deployment import Deployment

pytestmark = [pytest.mark.slow, pytest.mark.databases("sqlite", "postgres")]
SESSIONS = ("a", "b", "c")
LEAST = 10  # answers that are lost
PATIENCE = 240.0


@pytest.fixture
def served(target: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    made = Deployment(target, folder)
    made.environment["PERDURE_APP"] = APP
    made.start("serve", "--workers", "0", "--port", "0", "--json", "--socket", str(folder / "sock"))
    wait_until(lambda: http_process(made) > 0, "the service answers", PATIENCE)
    yield made
    made.close()


async def test_every_effect_happens_once_while_answers_are_lost(served: Deployment, folder: Path, sink: Sink) -> None:
    outside, token = sink.run(), await token_for(served, Role.WORKER)
    async with cutting_proxy(address_of(served)) as proxy, perdure.open(served.target) as runtime:
        proxy.lose_every = 3
        worker = start_worker(proxy.address, token, folder, PERDURE_SINK=outside.url)
        try:
            for id in SESSIONS:
                await runtime.start(remote_app.remote_work.bind(page=id), id=id)
            await kill_again_and_again(served, proxy)
            async with asyncio.timeout(PATIENCE):
                found = [await runtime.result(id) for id in SESSIONS]
        finally:
            worker.kill()
            worker.wait()
        assert proxy.lost >= LEAST
        assert [one[0] for one in found] == list(SESSIONS)
        doubts = [one async for one in runtime.effects(in_doubt=True)]
        asked = [one async for one in runtime.sessions(waiting_for=WaitKind.DOUBT.value)]
    assert (doubts, asked) == ([], [])
    expected = [f'{{"{name}":"{id}"}}' for name in remote_app.EXPECTED for id in SESSIONS]
    expected += [f'{{"idempotent":"{id} of the child"}}' for id in SESSIONS]
    assert bodies(outside) == dict.fromkeys(expected, 1)
