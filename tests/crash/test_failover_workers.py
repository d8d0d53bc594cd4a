"""A synchronous standby is promoted while several workers claim sessions: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

import perdure
from perdure.store.moves import restore
from perdure.store.moves import worker as worker_rows
from perdure.testing import Sink, SinkClient
from perdure.testing.proxy import wait_until
from perdure.testing.standby import FailoverServers
from tests.crash.support import failover_app
from tests.figures import record
from tests.memory import MEMORY

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.anyio]
WORKERS = 3
SIZES = [pytest.param(60, 1, id="some"), pytest.param(600, 5, id="many", marks=pytest.mark.soak)]


@contextmanager
def worker(url: str, service: SinkClient) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "perdure", "worker", "--concurrency", "4", "--store", url]
    command += ["--app", str(failover_app.__file__)]
    environment = os.environ | {"PERDURE_SINK": service.url, "PERDURE_CONNECTIONS": "4"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def count(service: SinkClient) -> int:
    return service.counts().get("kept", 0)


@pytest.mark.parametrize(("sessions", "failovers"), SIZES)
async def test_workers_continue_their_sessions_on_the_promoted_standby(sessions: int, failovers: int) -> None:
    with FailoverServers(MEMORY) as servers, Sink() as sink:
        for number in range(failovers):
            await fail_over(servers, sink.run(), sessions // failovers, f"promotion {number + 1}")


async def settle_until_done(runtime: perdure.Runtime, service: SinkClient, acts: int) -> int:
    """Settle what is asked, by what is outside, until all acts are done; returns how often it was asked.

    A session that is claimed before every worker has confirmed that nothing was lost may ask.
    """
    asked: set[str] = set()
    async with asyncio.timeout(100):
        while count(service) < acts:
            async for one in runtime.effects(in_doubt=True):
                posted = {"of": one.intent["session"], "number": one.intent["number"]}
                there = any(kept["body"] == posted for kept in service.kept())
                asked.add(one.id)
                with suppress(perdure.PerdureError):  # it is settled already
                    await runtime.settle(one.id, "happened" if there else "absent", by="ada", because="looked")
            await asyncio.sleep(0.1)
    return len(asked)


async def fail_over(servers: FailoverServers, service: SinkClient, sessions: int, name: str) -> None:
    acts = sessions * failover_app.ACTS
    with servers.pair() as (primary, standby), ExitStack() as stack:
        url = standby.url_of_both(primary.create_database())
        async with perdure.open(url) as runtime:
            workers = [stack.enter_context(worker(url, service)) for _ in range(WORKERS)]
            while len(await runtime.store.read(worker_rows.listing)) < WORKERS:  # one that only begins would end
                await asyncio.sleep(0.01)
            bound = failover_app.posts_across_failover.bind()
            ids = await runtime.start_many([bound] * sessions)
        wait_until(lambda: count(service) >= acts // 4, "a quarter of the acts is done")
        primary.kill()
        standby.promote()
        async with perdure.open(url) as runtime:
            asked = await settle_until_done(runtime, service, acts)
            assert [await runtime.result(id) for id in ids] == [failover_app.ACTS] * sessions
            kinds = Counter([event.kind for id in ids async for event in runtime.events(id)])
            restores = await runtime.store.read(restore.listing)
        assert all(one.poll() is None for one in workers)
        made = Counter((one["body"]["of"], one["body"]["number"]) for one in service.kept())
        doubled = sum(made.values()) - len(made)
        figures = (
            name,
            sessions,
            acts,
            acts - len(made),
            doubled,
            kinds["lease.kept"],
            kinds["lease.taken_over"],
            asked,
        )
        headings = ("sessions", "acts", "lost", "doubled", "leases kept", "taken over", "asked")
        record("Failover under workers", headings, figures)
        assert (len(made), doubled, kinds["lease.taken_over"]) == (acts, 0, 0)
        assert kinds["lease.kept"] > 0
        assert restores[0].released_by == "perdure"
