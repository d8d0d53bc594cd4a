"""Code that changes its rule between the kill and the resume: the stricter of the two counts."""

import time
from functools import partial
from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.parallel import Lane, Lanes
from perdure.testing.sweep.sweep import LIVE, Place, Report, Sweep
from tests.ledger import scenes
from tests.ledger.tables import show
from tests.ledger.test_kills import acting, disturbed
from tests.seed import sample

pytestmark = pytest.mark.slow
# The program, and what its tool is declared as when it is resumed; probes and undos stay.
CHANGES = {
    "escalate": ("mail=idempotent", "mail=pure"),
    "probe": ("comment=idempotent", "comment=pure"),
    "compensate": ("book=idempotent",),
}


def changed(sweep: Sweep, change: str, most: int, plant: str = "") -> Report:
    """Kill a life with the old code at some of its acts, and let one with the new code recover."""
    moments = sweep.measure()

    def trial(lane: Lane, fatal: int) -> None:
        with Place(sweep) as place:
            template = place.told.pop("template")
            first = lane.forking.run(LIVE, **place.told, template=template, fatal=fatal)
            environment = {scenes.CHANGED: change, scenes.PLANT: plant}
            last = lane.forking.run(LIVE, **place.told | {"environment": environment}, times=2)
            sweep.conclude(place.run, f"{change} after {first.told('last')}", int(first.killed), 0, last)

    begun, sweep.report.moments = time.monotonic(), len(moments)
    sweep.lanes.each([partial(trial, fatal=at) for at in sample(acting(moments), most)])
    sweep.report.seconds += time.monotonic() - begun
    return sweep.report


@pytest.mark.parametrize(("name", "change"), [(name, one) for name, some in CHANGES.items() for one in some])
def test_changed_code_does_nothing_twice(name: str, change: str, lanes: Lanes, sink: Sink, folder: Path) -> None:
    report = show(f"{name}, then {change}", changed(disturbed(name, lanes, sink, folder), change, 4))
    assert report.failures == []
    assert report.kills > 0


def test_following_the_loaded_code_is_caught(lanes: Lanes, sink: Sink, folder: Path) -> None:
    report = changed(disturbed("escalate", lanes, sink, folder), "mail=idempotent", 6, "rule_of_the_loaded_code")
    assert report.failures != []
