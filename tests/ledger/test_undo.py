"""An undo on request, killed at any point: in the end nothing is outside, and the program knows."""

from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.server_pool import ServerPool
from perdure.testing.sweep.sweep import Sweep
from tests.ledger.support import undo_program
from tests.ledger.support.faults import mostly_reached
from tests.ledger.support.figures import show
from tests.seed import sample

pytestmark = pytest.mark.slow


def test_an_effect_is_undone_wherever_the_process_dies(sweep_store: Path | str, pool: ServerPool, sink: Sink) -> None:
    sweep = Sweep(pool, undo_program.regret.bind(n=1), sink, sweep_store, person=undo_program.undo_when_asked)
    chosen = sweep.run(choose=lambda moments: sample(range(1, len(moments) + 1), 12))
    report = show("undone, killed" + (", PostgreSQL" if sweep.url else ""), chosen)
    assert report.failures == []
    assert mostly_reached(report)
