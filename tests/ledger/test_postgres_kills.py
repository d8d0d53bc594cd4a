"""The same on PostgreSQL: the client killed, the client stopped, and the server itself killed with SIGKILL."""

import time
from functools import partial

import pytest

from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.parallel import Lane, Lanes
from perdure.testing.sweep.sweep import LIVE, Place, Sweep
from tests.ledger.conftest import with_debits
from tests.ledger.matrix import POSTING, ROWS
from tests.ledger.stops import Pairs, sweep_stops
from tests.ledger.tables import show
from tests.ledger.test_kills import (
    ALONE,
    COMMITTED,
    UNKNOWN,
    disturbed,
    landing_late,
    mostly_reached,
    some,
    sweep_of,
)  # fmt: skip
from tests.ledger.test_stops import SHORT, around_commits, no_complaints
from tests.seed import sample

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.mark.parametrize("name", ALONE)
def test_a_kill_at_any_moment_leaves_every_effect_once(name: str, lanes: Lanes, sink: Sink, database: str) -> None:
    report = show(f"{name}, killed, PostgreSQL", sweep_of(name, lanes, sink, database).run(choose=some(6, COMMITTED)))
    assert report.failures == []
    assert mostly_reached(report)


def test_no_branch_repeats_what_it_inherits(lanes: Lanes, sink: Sink, database: str) -> None:
    report = show("forked, killed, PostgreSQL", sweep_of("forked", lanes, sink, database).run(choose=some(8)))
    assert report.failures == []
    assert mostly_reached(report)


@pytest.mark.parametrize("fault", UNKNOWN)
@pytest.mark.parametrize("name", POSTING)
def test_a_kill_beside_a_lost_reply_leaves_every_effect_once(
    name: str, fault: str, lanes: Lanes, sink: Sink, database: str
) -> None:
    sweep = sweep_of(name, lanes, sink, database, mode={"fault": fault})
    report = show(f"{name}, {fault} after the commit, PostgreSQL", sweep.run(choose=some(3, COMMITTED)))
    assert report.failures == []
    assert mostly_reached(report)


@pytest.mark.parametrize("name", POSTING)
def test_an_effect_that_lands_after_its_client_died_is_not_done_again(
    name: str, lanes: Lanes, sink: Sink, database: str
) -> None:
    report = show(
        f"{name}, lands late, PostgreSQL", landing_late(name, lanes, sink, database).run(choose=some(3, COMMITTED))
    )
    assert report.failures == []
    assert mostly_reached(report)


@pytest.mark.parametrize("name", ROWS)
def test_a_stopped_worker_neither_acts_nor_moves_when_its_lease_has_ended(
    name: str, lanes: Lanes, pairs: Pairs, sink: Sink, database: str
) -> None:
    sweep = disturbed(name, lanes, sink, database)
    chosen = around_commits(sweep.measure(), 2)
    trials = sweep_stops(sweep, pairs, chosen, what="stopped, PostgreSQL", lease=SHORT)
    assert sweep.report.failures == []
    assert no_complaints(trials)
    assert trials


@pytest.mark.parametrize("name", ROWS)
def test_a_worker_whose_lease_was_taken_by_force_does_nothing_twice(
    name: str, lanes: Lanes, pairs: Pairs, sink: Sink, database: str
) -> None:
    sweep = disturbed(name, lanes, sink, database)
    chosen = around_commits(sweep.measure(), 2)
    trials = sweep_stops(sweep, pairs, chosen, what="lease lost, PostgreSQL", forced=True)
    assert sweep.report.failures == []
    assert no_complaints(trials)
    assert trials


@pytest.mark.parametrize("name", ROWS)
def test_a_killed_server_costs_no_effect(name: str, lanes: Lanes, sink: Sink, victim: PostgresServer) -> None:
    """The client is stopped at a moment, the server killed with all its processes and started again; both go on."""
    sweep = sweep_of(name, lanes, sink, with_debits(victim.create_database()))
    moments = sweep.measure()
    sweep.report.moments, begun = len(moments), time.monotonic()
    commits = [at for at, label in enumerate(moments, 1) if label.startswith(("commit", "act"))]
    for fatal in sample(commits[3:-3], 2):
        lanes.each([partial(kill_server, sweep, fatal=fatal, server=victim)])
    sweep.report.seconds = time.monotonic() - begun
    report = show(f"{name}, server killed, PostgreSQL", sweep.report, kind="kills of the server")
    assert report.failures == []
    assert report.kills > 1


def kill_server(sweep: Sweep, lane: Lane, fatal: int, server: PostgresServer) -> None:
    with Place(sweep) as place:
        life = lane.forking.begin(LIVE, **place.told, fatal=fatal, how="stop")
        where = life.until("stopped")
        if where is None:
            return
        life.wait_stopped()
        server.kill()
        server.start()
        life.go_on()
        ended = life.end()
        last = lane.forking.run(LIVE, **place.told, times=2)
        sweep.conclude(place.run, where if ended.error is None else f"{where}: {ended.error}", 1, 0, last)
