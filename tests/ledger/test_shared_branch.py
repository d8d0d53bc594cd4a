"""Several sessions push to one branch and are killed: no push begins before the previous one is settled."""

from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.server_pool import ServerPool
from perdure.testing.sweep.sweep import Sweep
from tests.ledger.support import shared_branch
from tests.ledger.support.faults import COMMITTED, around_acts, mostly_reached, some
from tests.ledger.support.figures import show

pytestmark = pytest.mark.slow


def test_sessions_never_push_over_each_other(sweep_store: Path | str, pool: ServerPool, sink: Sink) -> None:
    sweep = Sweep(pool, shared_branch.pushers.bind(n=2), sink, sweep_store)
    report = sweep.run(choose=some(16, COMMITTED))
    show("one branch, killed" + (", PostgreSQL" if sweep.url else ""), report)
    assert report.failures == []
    assert mostly_reached(report)


def test_a_lease_that_ends_before_the_effect_is_settled_is_caught(pool: ServerPool, sink: Sink, folder: Path) -> None:
    """Whether two pushes overlap depends on chance, so the sweep is repeated until they do."""
    setup = shared_branch.ignore_held_leases
    for number in range(20):
        sweep = Sweep(pool, shared_branch.pushers.bind(n=2), sink, folder / f"planted-{number}", setup=setup)
        planted = sweep.run(choose=around_acts)
        if any('"over"' in failure for failure in planted.failures):
            return
    pytest.fail("No push went over another one.")
