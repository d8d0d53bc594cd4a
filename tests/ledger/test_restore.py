"""Kills after a restore: an effect that may have happened is settled by its rule, and happens once."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.server_pool import ServerPool
from perdure.testing.sweep.sweep import Sweep
from tests.ledger.support import process_setup, programs, restored_store
from tests.ledger.support.faults import mostly_reached
from tests.ledger.support.figures import show
from tests.seed import sample

pytestmark = pytest.mark.slow


def some(moments: list[str]) -> Iterable[int]:
    return sample(range(3, len(moments) + 1), 8)


@pytest.mark.parametrize("name", ["idempotent", "probe", "compensate"])
def test_every_effect_happens_once_after_a_restore(name: str, pool: ServerPool, sink: Sink, folder: Path) -> None:
    bound = getattr(programs, name).bind(n=1)
    sweep = Sweep(pool, bound, sink, folder / f"restored-{name}", script=restored_store.restore_first)
    report = show(f"{name}, killed after a restore", sweep.run(choose=some))
    assert report.failures == []
    assert mostly_reached(report)


def family(pool: ServerPool, sink: Sink, folder: Path) -> Sweep:
    bound, store = restored_store.family.bind(n=1), folder / "restored-family"
    return Sweep(pool, bound, sink, store, script=restored_store.restore_after, setup=process_setup.prepare)


def test_children_started_again_after_a_restore_repeat_nothing(pool: ServerPool, sink: Sink, folder: Path) -> None:
    report = show("children, killed around a restore", family(pool, sink, folder).run(choose=some))
    assert report.failures == []
    assert mostly_reached(report)


def test_a_restore_that_does_not_reach_children_is_caught(pool: ServerPool, sink: Sink, folder: Path) -> None:
    sweep = family(pool, sink, folder)
    sweep.measure()
    sweep.environment = {process_setup.PLANT: "restore_forgets_children"}
    report = sweep.run(choose=lambda moments: [len(moments)])
    assert any("duplicated" in failure for failure in report.failures)
