"""A living process across a change of server: at every durable moment of a run, a real server takes over.

With a synchronous standby nothing is lost, and the program notices only a pause. With one that had been cut off, what
the run wrote is lost: then nothing is done twice, and for `escalate` a person is asked.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from perdure import Call, Outcome, Session, faults, program, tool
from perdure.domain.literals import VerdictWord
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.runtime import Runtime, SessionView
from perdure.runtime.runtime import open as open_runtime
from perdure.store import failover
from perdure.store.databases.postgres import history
from perdure.store.moves import event, restore
from perdure.testing import Sink, SinkClient
from perdure.testing.postgres import PostgresServer
from perdure.testing.standby import FailoverServers
from tests.memory import MEMORY
from tests.runtime.ledger.test_restore import recover_from

pytestmark = [pytest.mark.anyio, pytest.mark.postgres, pytest.mark.slow]
LEASE = "60s"
EVERY = [pytest.param(5, id="some"), pytest.param(1, id="all", marks=pytest.mark.soak)]


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    with Sink() as running:
        yield running


@pytest.fixture(scope="module")
def succession() -> Iterator[FailoverServers]:
    with FailoverServers(MEMORY) as servers:
        yield servers


def acting(service: SinkClient) -> None:
    """A program that acts twice: once it must not be repeated without a person's word, once a probe can tell."""

    @tool(name="send", replay="escalate", inflight="10ms")
    def send(call: Call) -> None:
        service.post(None, {"n": 1}, marker="sent")

    @tool(name="post", replay="probe", inflight="10ms")
    def post(call: Call) -> None:
        service.post(None, {"n": 2}, marker=call.key)

    @post.probe
    def look(call: Call) -> Outcome:
        return Outcome.happened() if service.find(key=call.key) else Outcome.absent()

    @program
    async def acts(s: Session) -> str:
        await s.do(send)
        await s.do(post)
        return "acted"

    @program
    async def asks_after_failover(s: Session) -> str:
        await s.ask("Now?", choices=["yes"])
        await s.do(send)
        return "acted"


async def run_with(runtime: Runtime, act: Callable[[], None], at: int | str) -> tuple[SessionView, int]:
    """Run the session, and do something at one of its moments; returns how many moments there were."""
    passed, acted = 0, False

    def reached(point: str) -> None:
        nonlocal passed, acted
        passed += 1
        if at in (passed, point) and not acted:
            acted = True
            act()

    faults.arm(reached)
    try:
        return await runtime.complete("s"), passed
    except Exception:
        return await runtime.get("s"), passed
    finally:
        faults.disarm()


async def seen_through(runtime: Runtime, service: SinkClient) -> SessionView:
    """Tell the truth wherever a person is asked, until the session has ended."""
    view = await runtime.run("s")
    for _ in range(100):
        for one in view.waits:
            if one.kind == "doubt":
                verdict: VerdictWord = "happened" if service.find(key="sent") else "absent"
                await runtime.settle(str(one.ref), verdict, by="ada", because="looked")
        if view.status == "done":
            break
        seen = runtime.store.wakeups.version
        await runtime.store.wakeups.wait(seen, view.uid, 0.05)
        view = await runtime.run("s")
    return view


@pytest.mark.parametrize("every", EVERY)
async def test_a_synchronous_failover_at_any_moment_is_only_a_pause(
    every: int, succession: FailoverServers, sink: Sink
) -> None:
    at, last = 1, 2
    while at <= last:
        service = sink.run()
        acting(service)
        with succession.pair() as (primary, standby):
            url = standby.url_of_both(primary.create_database())

            def fail_over(primary: PostgresServer = primary, promote: Callable[[], None] = standby.promote) -> None:
                primary.kill()
                promote()

            async with open_runtime(url, connections=2, lease=LEASE) as runtime:
                await runtime.start(PROGRAMS["asks_after_failover"].bind(), id="idle")
                await runtime.run("idle")
                await runtime.start(PROGRAMS["acts"].bind(), id="s")
                view, last = await run_with(runtime, fail_over, at)
                assert (view.result, view.waits) == ("acted", ()), at
                assert len(service.kept()) == 2, at
                (found,) = await runtime.store.read(restore.listing)
                assert found.released_by == failover.BY
                (asked,) = (await runtime.get("idle")).waits
                await runtime.answer(asked.id, "yes")
                assert (await runtime.run("idle")).result == "acted"
                await runtime.store.read(event.verify, view.uid)
        at += every


async def lose_at(succession: FailoverServers, service: SinkClient, at: int | str) -> int:
    """Lose everything of a run up to one of its moments, and see it through; returns how many moments there were."""
    acting(service)
    with succession.pair(synchronous=False) as (primary, standby):
        url = standby.url_of_both(primary.create_database())
        async with open_runtime(url, connections=2, lease=LEASE) as runtime:
            await runtime.start(PROGRAMS["acts"].bind(), id="s")
            standby.wait_until_caught_up()
            standby.cut_off()

            def fail_over() -> None:
                primary.kill()
                standby.promote()

            view, last = await run_with(runtime, fail_over, at)
            view = await seen_through(runtime, service)
            assert view.result == "acted", at
    return last


@pytest.mark.parametrize("every", EVERY)
async def test_a_failover_that_loses_commits_at_any_moment_repeats_nothing(
    every: int, succession: FailoverServers, sink: Sink
) -> None:
    at, last = 1, 2
    while at <= last:
        service = sink.run()
        last = await lose_at(succession, service, at)
        assert len(service.kept()) == 2, at
        at += every


def server_without_timeline(db: psycopg.Connection[Any]) -> history.ServerIdentity:
    server, _, _ = history._identify(db)
    return history.ServerIdentity("", server.started)


@pytest.mark.parametrize("bug", ["timelines are not compared", "nothing is looked for"])
async def test_trusting_a_lossy_failover_would_repeat_an_effect(
    bug: str, succession: FailoverServers, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a lost commit is not noticed, so what it told of is done again."""
    if bug == "timelines are not compared":
        monkeypatch.setattr(history, "check_timeline", lambda db, known=0: (server_without_timeline(db), known))
    else:
        monkeypatch.setattr(failover, "_is_there", lambda tx, one: True)
        monkeypatch.setattr(failover, "all_synchronous", lambda noted: True)
    service = sink.run()
    await lose_at(succession, service, "act.after")
    assert len(service.kept()) == 3


async def test_a_living_process_notices_a_point_in_time_recovery(sink: Sink) -> None:
    service = sink.run()
    acting(service)
    with PostgresServer(MEMORY) as server:
        url = server.create_database()
        async with open_runtime(url, connections=2, lease=LEASE) as runtime:
            await runtime.start(PROGRAMS["acts"].bind(), id="s")
        server.stop()
        backup = server.folder / "backup"
        shutil.copytree(server.data, backup)
        server.start()

        def put_back() -> None:
            server.stop()
            recover_from(server, backup)
            server.start()

        async with open_runtime(url, connections=2, lease=LEASE) as runtime:
            await run_with(runtime, put_back, "act.after")
            (found,) = await runtime.store.read(restore.listing)
            assert found.released_at is None
            assert (await seen_through(runtime, service)).result == "acted"
        assert len(service.kept()) == 2
