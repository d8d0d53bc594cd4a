"""The same on PostgreSQL: the client killed, the client stopped, and the server itself killed with SIGKILL."""

import time
from collections.abc import Iterable
from functools import partial

import pytest

from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep import LIVE, Lane, Lanes, Place, Sweep
from tests.ledger import scenes
from tests.ledger.stops import Pairs, sweep_stops
from tests.ledger.tables import show
from tests.ledger.test_kills import ALONE, disturbed, sweep_of

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.mark.parametrize("name", ALONE)
def test_a_kill_at_any_moment_leaves_every_effect_once(name: str, lanes: Lanes, sink: Sink, database: str) -> None:
    report = show(f"{name}, killed, PostgreSQL", sweep_of(name, lanes, sink, database).run(choose=committing))
    assert report.failures == []
    assert report.kills > 10


def test_no_branch_repeats_what_it_inherits(lanes: Lanes, sink: Sink, database: str) -> None:
    sweep = sweep_of("forked", lanes, sink, database, script=scenes.branch)
    report = show("fork, killed, PostgreSQL", sweep.run(choose=lambda moments: list(committing(moments))[::2]))
    assert report.failures == []
    assert report.kills > 15


@pytest.mark.parametrize("name", ["probe", "compensate", "escalate"])
def test_a_kill_beside_a_lost_reply_leaves_every_effect_once(
    name: str, lanes: Lanes, sink: Sink, database: str
) -> None:
    sweep = sweep_of(name, lanes, sink, database, mode={"fault": "cut"})
    report = show(f"{name}, cut after the commit, PostgreSQL", sweep.run(choose=acting))
    assert report.failures == []
    assert report.kills > 5


@pytest.mark.parametrize("name", ["idempotent", "probe", "escalate"])
def test_a_worker_whose_lease_was_taken_by_force_does_nothing_twice(
    name: str, lanes: Lanes, pairs: Pairs, sink: Sink, database: str
) -> None:
    sweep = disturbed(name, lanes, sink, database)
    chosen = list(acting(sweep.measure()))
    trials = sweep_stops(sweep, pairs, chosen, what="lease lost, PostgreSQL", forced=True)
    assert sweep.report.failures == []
    assert [line for trial in trials for line in trial.complaints] == []
    assert len(trials) > 3


@pytest.mark.parametrize("name", ["idempotent", "probe", "compensate", "escalate"])
def test_a_killed_server_costs_no_effect(name: str, lanes: Lanes, sink: Sink, victim: PostgresServer) -> None:
    """The client is stopped at a moment, the server killed with all its processes and started again; both go on."""
    sweep = sweep_of(name, lanes, sink, victim.create_database())
    moments = sweep.measure()
    sweep.report.moments, begun = len(moments), time.monotonic()
    commits = [at for at, label in enumerate(moments, 1) if label.startswith(("commit", "act"))]
    for fatal in commits[3:-3:3][:6]:
        lanes.each([partial(kill_server, sweep, fatal=fatal, server=victim)])
    sweep.report.seconds = time.monotonic() - begun
    report = show(f"{name}, server killed", sweep.report)
    assert report.failures == []
    assert report.kills > 4


def kill_server(sweep: Sweep, lane: Lane, fatal: int, server: PostgresServer) -> None:
    with Place(sweep) as place:
        life = lane.begin(LIVE, **place.told, fatal=fatal, how="stop")
        where = life.until("stopped")
        if where is None:
            return
        life.wait_stopped()
        server.kill()
        server.start()
        life.go_on()
        ended = life.end()
        last = lane.run(LIVE, **place.told, times=2)
        sweep.conclude(place.run, where if ended.error is None else f"{where}: {ended.error}", 1, 0, last)


def committing(moments: list[str]) -> Iterable[int]:
    """Around every commit and every act: before a commit the server has seen nothing that lasts."""
    return [at for at, label in enumerate(moments, 1) if label.startswith(("commit", "act", "probe"))]


def acting(moments: list[str]) -> Iterable[int]:
    return [at for at, label in enumerate(moments, 1) if label.startswith(("act", "probe"))]
