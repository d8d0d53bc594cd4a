"""The process that recovers is killed as well, the undo in the middle, and commits fail without saying how."""

import time
from functools import partial
from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.parallel import Lane, Lanes
from perdure.testing.sweep.sweep import LIVE, Place, Sweep
from tests.ledger import scenes
from tests.ledger.tables import show
from tests.ledger.test_kills import disturbed, sweep_of
from tests.ledger.test_stops import RULES
from tests.seed import sample


def acts(moments: list[str]) -> list[int]:
    """The moment at which the first effect has landed and nobody knows."""
    return [at for at, label in enumerate(moments, 1) if label == "act.after"][:1]


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_a_kill_at_any_moment_of_the_recovery_leaves_every_effect_once(
    name: str, lanes: Lanes, sink: Sink, folder: Path
) -> None:
    """The first life dies when an effect has landed unrecorded; the second at some of its moments."""
    sweep = sweep_of(name, lanes, sink, folder)
    second = sample(range(1, 60), 14)
    report = show(f"{name}, recovery killed", sweep.run(choose=acts, second=lambda _: second))
    assert report.failures == []
    assert report.kills > len(second)  # usually almost twice as many: a recovery may be over before its moment


@pytest.mark.slow
def test_an_undo_killed_half_way_is_finished_by_the_next(lanes: Lanes, sink: Sink, folder: Path) -> None:
    """With a lost reply the first life already undoes; wherever it and the second die, the third comes out right."""
    sweep = sweep_of("compensate", lanes, sink, folder, mode={"fault": "cut"})

    def undoing(moments: list[str]) -> list[int]:
        around = [at for at, label in enumerate(moments, 1) if label.startswith("act")]
        return around[3:6]  # the first undo: before, begun, after

    second = sample(range(1, 60), 8)
    report = show("undo, killed twice", sweep.run(choose=undoing, second=lambda _: second))
    assert report.failures == []
    assert report.kills > 3 * len(second)  # usually almost six times as many


@pytest.mark.slow
@pytest.mark.parametrize("held", ["held", "gone"])
@pytest.mark.parametrize("name", ["probe", "escalate", "joint", "compensate"])
def test_a_commit_that_fails_without_saying_how_changes_nothing(
    name: str, held: str, lanes: Lanes, sink: Sink, folder: Path
) -> None:
    sweep = disturbed(name, lanes, sink, folder)
    commits = ambiguous(sweep, held, most=6)
    report = show(f"{name}, ambiguous commit {held}", sweep.report, kind="commits that failed")
    assert report.failures == []
    assert commits > 5


def ambiguous(sweep: Sweep, held: str, plant: str = "", most: int = 1_000) -> int:
    """Let some commits of a life fail in turn, once it is open; then kill nobody, and look. Returns how many it has."""
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

    numbers = sample(range(2, commits + 2), most)  # the first is the barrier that opening makes
    sweep.lanes.each([partial(trial, number=number) for number in numbers])
    sweep.report.seconds = time.monotonic() - begun
    return commits
