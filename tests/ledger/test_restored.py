"""After a restore, killed at any moment: what nobody can know is asked for by its rule, and happens once."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.lanes import Lanes
from perdure.testing.sweep import Sweep
from tests.ledger import programs, restored
from tests.ledger.tables import show
from tests.ledger.test_kills import mostly_reached

pytestmark = pytest.mark.slow


def some(moments: list[str]) -> Iterable[int]:
    """About thirty moments, from one end to the other; an undo of every generation makes many."""
    return range(3, len(moments) + 1, max(3, len(moments) // 30))


@pytest.mark.parametrize("name", ["idempotent", "probe", "compensate"])
def test_a_kill_after_a_restore_leaves_every_effect_once(name: str, lanes: Lanes, sink: Sink, folder: Path) -> None:
    bound = getattr(programs, name).bind(n=1)
    sweep = Sweep(lanes, bound, sink, folder / f"restored-{name}", script=restored.put_back_first)
    report = show(f"{name}, killed after a restore", sweep.run(choose=some))
    assert report.failures == []
    assert mostly_reached(report)
