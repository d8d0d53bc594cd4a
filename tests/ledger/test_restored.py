"""After a restore, killed at any moment: what nobody can know is asked for by its rule, and happens once."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.parallel import Lanes
from perdure.testing.sweep.sweep import Sweep
from tests.ledger import programs, restored, scenes
from tests.ledger.tables import show
from tests.ledger.test_kills import mostly_reached
from tests.seed import sample

pytestmark = pytest.mark.slow


def some(moments: list[str]) -> Iterable[int]:
    return sample(range(3, len(moments) + 1), 8)


@pytest.mark.parametrize("name", ["idempotent", "probe", "compensate"])
def test_a_kill_after_a_restore_leaves_every_effect_once(name: str, lanes: Lanes, sink: Sink, folder: Path) -> None:
    bound = getattr(programs, name).bind(n=1)
    sweep = Sweep(lanes, bound, sink, folder / f"restored-{name}", script=restored.put_back_first)
    report = show(f"{name}, killed after a restore", sweep.run(choose=some))
    assert report.failures == []
    assert mostly_reached(report)


def family(lanes: Lanes, sink: Sink, folder: Path) -> Sweep:
    bound = restored.family.bind(n=1)
    return Sweep(
        lanes, bound, sink, folder / "restored-family", script=restored.put_back_after, setup=scenes.prepare
    )  # fmt: skip


def test_children_begun_again_after_a_restore_repeat_nothing(lanes: Lanes, sink: Sink, folder: Path) -> None:
    report = show("children, killed around a restore", family(lanes, sink, folder).run(choose=some))
    assert report.failures == []
    assert mostly_reached(report)


def test_a_restore_that_does_not_reach_children_is_caught(lanes: Lanes, sink: Sink, folder: Path) -> None:
    sweep = family(lanes, sink, folder)
    sweep.measure()
    sweep.environment = {scenes.PLANT: "restore_forgets_children"}
    report = sweep.run(choose=lambda moments: [len(moments)])
    assert any("duplicated" in failure for failure in report.failures)
