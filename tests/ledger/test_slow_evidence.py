"""Slow probes and undos: requests in flight land after they have checked, and their answer comes much later."""

from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.report import Report
from perdure.testing.sweep.server_pool import ServerPool
from tests.ledger.support import process_setup
from tests.ledger.support.faults import around_acts, sweep_of
from tests.ledger.support.figures import show
from tests.ledger.support.programs import SLOW
from tests.seed import sample

pytestmark = pytest.mark.slow
IN_FLIGHT = {"fault": "late_cut", "delay": 0.5}  # or as soon as a probe or an undo has checked; `inflight` is 1 s
SECONDS = 1.2  # more than `inflight`
PLANTS = {"probe": "absent_dated_by_its_answer", "compensate": "undo_dated_by_its_answer"}


def slow(name: str, how: str, pool: ServerPool, sink: Sink, store: Path | str, most: int, plant: str = "") -> Report:
    """Kill at acts, with probes and undos of which only the thread is slow, or whose process is stopped."""
    sweep = sweep_of(name, pool, sink, store, mode=IN_FLIGHT, setup=process_setup.be_very_patient)
    sweep.environment = {SLOW: f"{how}:{SECONDS}"}
    sweep.measure()
    sweep.environment |= {process_setup.PLANT: plant}
    return sweep.run(choose=lambda moments: sample(around_acts(moments), most))


@pytest.mark.parametrize("name", PLANTS)
def test_slow_evidence_is_as_old_as_its_question(
    name: str, pool: ServerPool, sink: Sink, sweep_store: Path | str
) -> None:
    what, most = (f"{name}, slow evidence", 4)
    if isinstance(sweep_store, str):
        what, most = f"{what}, PostgreSQL", 2
    report = show(what, slow(name, "stop", pool, sink, sweep_store, most))
    assert report.failures == []
    assert report.kills > 0


@pytest.mark.parametrize("name", PLANTS)
def test_evidence_dated_by_its_answer_is_caught(name: str, pool: ServerPool, sink: Sink, folder: Path) -> None:
    report = slow(name, "stop", pool, sink, folder, 2, PLANTS[name])
    assert [line for line in report.failures if "duplicated" in line] != []


@pytest.mark.soak
@pytest.mark.parametrize("how", ["sleep", "stop"])
@pytest.mark.parametrize("name", PLANTS)
def test_slow_evidence_with_a_kill_at_any_act(name: str, how: str, pool: ServerPool, sink: Sink, folder: Path) -> None:
    assert slow(name, how, pool, sink, folder, 1000).failures == []
