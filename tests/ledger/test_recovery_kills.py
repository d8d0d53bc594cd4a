"""The process that recovers is killed as well, the undo in the middle, and commits fail without saying how."""

import time
from functools import partial
from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.lanes import Lane, Lanes
from perdure.testing.sweep import LIVE, Place, Sweep
from tests.ledger import scenes
from tests.ledger.tables import show
from tests.ledger.test_kills import disturbed, sweep_of
from tests.ledger.test_stops import RULES


def acts(moments: list[str]) -> list[int]:
    """The moment at which the first effect has landed and nobody knows."""
    return [at for at, label in enumerate(moments, 1) if label == "act.after"][:1]


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_a_kill_at_any_moment_of_the_recovery_leaves_every_effect_once(
    name: str, lanes: Lanes, sink: Sink, folder: Path
) -> None:
    """The first life dies when an effect has landed unrecorded; the second at each of its moments."""
    sweep = sweep_of(name, lanes, sink, folder)
    report = show(f"{name}, recovery killed", sweep.run(choose=acts, second=lambda _: range(1, 60)))
    assert report.failures == []
    assert report.kills > 60  # usually 110: a recovery may be over before its moment


@pytest.mark.slow
def test_an_undo_killed_half_way_is_finished_by_the_next(lanes: Lanes, sink: Sink, folder: Path) -> None:
    """With a lost reply the first life already undoes; wherever it and the second die, the third comes out right."""
    sweep = sweep_of("compensate", lanes, sink, folder, mode={"fault": "cut"})

    def undoing(moments: list[str]) -> list[int]:
        around = [at for at, label in enumerate(moments, 1) if label.startswith("act")]
        return around[3:6]  # the first undo: before, begun, after

    report = show("undo, killed twice", sweep.run(choose=undoing, second=lambda _: range(1, 60, 2)))
    assert report.failures == []
    assert report.kills > 100  # usually 180


@pytest.mark.slow
@pytest.mark.parametrize("held", ["held", "gone"])
@pytest.mark.parametrize("name", ["probe", "escalate", "joint", "compensate"])
def test_a_commit_that_fails_without_saying_how_changes_nothing(
    name: str, held: str, lanes: Lanes, sink: Sink, folder: Path
) -> None:
    sweep = disturbed(name, lanes, sink, folder)
    commits = ambiguous(sweep, held)
    report = show(f"{name}, ambiguous commit {held}", sweep.report, kind="commits that failed")
    assert report.failures == []
    assert commits > 5


def ambiguous(sweep: Sweep, held: str, plant: str = "") -> int:
    """Let each commit of a life fail in turn, once it is open; then kill nobody, and look. Returns how many."""
    moments, begun = sweep.measure(), time.monotonic()
    sweep.report.moments = len(moments)
    commits = sum(label == "commit.before" for label in moments)

    def trial(lane: Lane, number: int) -> None:
        with Place(sweep) as place:
            template, environment = place.told.pop("template"), {scenes.PLANT: plant}
            failing = environment | {scenes.AMBIGUOUS: f"{number}:{held}"}
            first = lane.forking.run(LIVE, **place.told | {"environment": failing}, template=template)
            last = lane.forking.run(LIVE, **place.told | {"environment": environment}, times=2)
            where = f"commit {number}" if first.error is None else f"commit {number}: {first.error.splitlines()[-1]}"
            sweep.conclude(place.run, where, 1, 0, last)

    numbers = range(2, commits + 2)  # the first is the barrier that opening makes
    sweep.lanes.each([partial(trial, number=number) for number in numbers])
    sweep.report.seconds = time.monotonic() - begun
    return commits
