"""One branch, several sessions, and kills: no push begins before the one before it is settled."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.lanes import Lanes
from perdure.testing.sweep import Report, Sweep
from tests.ledger import branch
from tests.ledger.tables import show
from tests.ledger.test_kills import mostly_reached

pytestmark = pytest.mark.slow


def sweep(lanes: Lanes, sink: Sink, store: Path | str, setup: Callable[[], None] | None = None) -> Report:
    return Sweep(lanes, branch.crowd.bind(n=2), sink, store, setup=setup).run(choose=around_the_pushes)


def around_the_pushes(moments: list[str]) -> Iterable[int]:
    """Every act, and every second commit: between them nothing is outside that was not there before."""
    acts = [at for at, label in enumerate(moments, 1) if label.startswith("act")]
    return sorted({*acts, *[at for at, label in enumerate(moments, 1) if label == "commit.after"][::2]})


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
    planted = sweep(lanes, sink, folder / "planted", branch.give_up_with_the_process)
    assert any('"over"' in failure for failure in planted.failures), str(planted)
