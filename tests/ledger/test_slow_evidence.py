"""Probes and undos that are slow: what is in flight lands after they looked, and they answer much later."""

from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.parallel import Lanes
from perdure.testing.sweep.sweep import Report
from tests.ledger import scenes
from tests.ledger.programs import SLOW
from tests.ledger.tables import show
from tests.ledger.test_kills import acting, sweep_of
from tests.seed import sample

pytestmark = pytest.mark.slow
IN_FLIGHT = {"fault": "late_cut", "delay": 0.5}  # or as soon as a probe or an undo has looked; `inflight` is 1 s
LATER = "1.2"  # seconds, more than `inflight`
PLANTS = {"probe": "absent_dated_by_its_answer", "compensate": "undo_dated_by_its_answer"}


def slow(name: str, lanes: Lanes, sink: Sink, folder: Path, most: int, plant: str = "") -> Report:
    sweep = sweep_of(name, lanes, sink, folder, mode=IN_FLIGHT, setup=scenes.be_very_patient)
    sweep.environment = {SLOW: LATER}
    sweep.measure()
    sweep.environment = {SLOW: LATER, scenes.PLANT: plant}
    return sweep.run(choose=lambda moments: sample(acting(moments), most))


@pytest.mark.parametrize("name", PLANTS)
def test_a_slow_look_is_as_old_as_its_question(name: str, lanes: Lanes, sink: Sink, folder: Path) -> None:
    report = show(f"{name}, slow evidence", slow(name, lanes, sink, folder, 4))
    assert report.failures == []
    assert report.kills > 0


@pytest.mark.parametrize("name", PLANTS)
def test_a_look_that_is_dated_by_its_answer_is_caught(name: str, lanes: Lanes, sink: Sink, folder: Path) -> None:
    report = slow(name, lanes, sink, folder, 2, PLANTS[name])
    assert [line for line in report.failures if "duplicated" in line] != []


@pytest.mark.soak
@pytest.mark.parametrize("name", PLANTS)
def test_a_slow_look_beside_a_kill_at_any_act(name: str, lanes: Lanes, sink: Sink, folder: Path) -> None:
    assert slow(name, lanes, sink, folder, 1000).failures == []
