"""A worker stopped with SIGSTOP while another one takes over, and continued: it neither acts nor moves any more.

The sweeps over every program are in `test_sqlite_faults` and `test_postgres_faults`.
"""

import os
import random
from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.server_pool import ServerPool, TrialServers
from perdure.testing.sweep.sweep import TrialContext
from tests.ledger.support.faults import RULES, SHORT, labelled, stop_workers, sweep_of
from tests.ledger.support.figures import show
from tests.ledger.support.stopped_worker import TAKEN, complaints_of


@pytest.mark.slow
@pytest.mark.parametrize("name", ["escalate", "probe"])
def test_old_holder_cannot_dispatch_before_the_new_one(name: str, pool: ServerPool, sink: Sink, folder: Path) -> None:
    """Both are stopped: the old one before a dispatch, the new one right after it took the lease."""
    sweep = sweep_of(name, pool, sink, folder)
    results = stop_workers(sweep, before_dispatches, forced=True, second_stop=TAKEN)
    show(f"{name}, two stopped", sweep.report, kind="stops")
    reached = [one for one in results if one is not None]
    assert sweep.report.failures == []
    assert complaints_of(reached) == []
    assert len(reached) > len(results) / 2


def before_dispatches(moments: list[str]) -> list[int]:
    return [max(1, at - 1) for at in labelled(moments, "move.before") if 8 < at < 40]


@pytest.mark.slow
def test_late_outcome_is_accepted_after_the_lease_is_lost(pool: ServerPool, sink: Sink, folder: Path) -> None:
    """The first acted and was stopped before it could record that; no person is needed to settle it."""
    sweep = sweep_of("escalate", pool, sink, folder)
    results = stop_workers(sweep, lambda moments: labelled(moments, "act.after"), forced=True, alone=True)
    show("escalate, settled late", sweep.report, kind="stops")
    assert sweep.report.failures == []
    assert [one.verdicts for one in results if one is not None] == [0, 0]


@pytest.mark.slow
def test_second_process_is_refused_with_the_name_of_the_holder(pool: ServerPool, sink: Sink, folder: Path) -> None:
    sweep = sweep_of("probe", pool, sink, folder)
    after_act = sweep.measure().index("act.after") + 1

    def trial(servers: TrialServers) -> None:
        with TrialContext(sweep) as context:
            first = context.begin(servers.forking, fatal=after_act, how="stop")
            assert first.wait_for("stopped") == "act.after"
            first.wait_stopped()
            refused = context.run(servers.second).result["ends"][0]
            first.resume()
            done = first.wait().result["ends"][0]
        assert refused["refused"] == "lease-held"
        assert f":{first.pid}" in refused["holder"]
        assert refused["holder"] in refused["message"]
        assert done[0][0] == "done"

    pool.each([trial])


@pytest.mark.soak
@pytest.mark.parametrize("name", RULES)
def test_every_effect_happens_once_in_a_thousand_stops(name: str, pool: ServerPool, sink: Sink, folder: Path) -> None:
    """`PERDURE_SOAK_STOPS` is the number of stops, of all rules together."""
    count = int(os.environ.get("PERDURE_SOAK_STOPS", "1000")) // len(RULES)
    chosen = random.Random(f"soak {name}").choices(range(2, 44), k=count)
    sweep = sweep_of(name, pool, sink, folder)
    results = stop_workers(sweep, lambda _: chosen, lease=SHORT)
    show(f"{name}, stopped, long", sweep.report, kind="stops")
    reached = [one for one in results if one is not None]
    print(f"{name}: {len(reached)} stops in {sweep.report.seconds:.0f} s")
    assert sweep.report.failures == []
    assert complaints_of(reached) == []
    assert len(reached) > 0.8 * count
