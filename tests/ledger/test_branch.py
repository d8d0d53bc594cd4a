"""One branch, several sessions, and kills: no push begins before the one before it is settled."""

from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.parallel import Lanes
from perdure.testing.sweep.sweep import Report, Sweep
from tests.ledger import branch
from tests.ledger.tables import show
from tests.ledger.test_kills import COMMITTED, acting, mostly_reached, some

pytestmark = pytest.mark.slow


def sweep(lanes: Lanes, sink: Sink, store: Path | str) -> Report:
    return Sweep(lanes, branch.crowd.bind(n=2), sink, store).run(choose=some(16, COMMITTED))


def test_sessions_never_push_over_each_other_wherever_they_are_killed(lanes: Lanes, sink: Sink, folder: Path) -> None:
    report = show("one branch, killed", sweep(lanes, sink, folder / "branch"))
    assert report.failures == []
    assert mostly_reached(report)


@pytest.mark.postgres
def test_the_same_on_postgres(lanes: Lanes, sink: Sink, database: str) -> None:
    report = show("one branch, killed, PostgreSQL", sweep(lanes, sink, database))
    assert report.failures == []
    assert mostly_reached(report)


def test_a_lease_that_ends_before_the_effect_is_settled_is_found_out(lanes: Lanes, sink: Sink, folder: Path) -> None:
    made = Sweep(lanes, branch.crowd.bind(n=2), sink, folder / "planted", setup=branch.give_up_with_the_process)
    planted = made.run(choose=acting)
    assert any('"over"' in failure for failure in planted.failures), str(planted)
