"""An undo on request, killed at any moment: in the end nothing is outside, and the program has been told."""

from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.parallel import Lanes
from perdure.testing.sweep.sweep import Report, Sweep
from tests.ledger import undone
from tests.ledger.tables import show
from tests.ledger.test_kills import mostly_reached
from tests.seed import sample

pytestmark = pytest.mark.slow


def sweep(lanes: Lanes, sink: Sink, store: Path | str) -> Report:
    made = Sweep(lanes, undone.regret.bind(n=1), sink, store, person=undone.think_again)
    return made.run(choose=lambda moments: sample(range(1, len(moments) + 1), 12))


def test_what_is_taken_back_is_taken_back_wherever_the_process_dies(lanes: Lanes, sink: Sink, folder: Path) -> None:
    report = show("undone, killed", sweep(lanes, sink, folder / "undone"))
    assert report.failures == []
    assert mostly_reached(report)


@pytest.mark.postgres
def test_the_same_on_postgres(lanes: Lanes, sink: Sink, database: str) -> None:
    report = show("undone, killed, PostgreSQL", sweep(lanes, sink, database))
    assert report.failures == []
    assert mostly_reached(report)
