"""Every planted bug is caught. One that nothing catches would be a gap in the tests or in the code."""

from pathlib import Path
from typing import Any

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.parallel import Lanes
from perdure.testing.sweep.sweep import Report, Sweep
from tests.ledger import scenes
from tests.ledger.merged import merged_settle_is_there
from tests.ledger.planted import PLANTS
from tests.ledger.stops import TAKEN, Pairs, sweep_stops
from tests.ledger.test_kills import LATE, disturbed, sweep_of
from tests.ledger.test_recovery_kills import ambiguous
from tests.ledger.test_stops import SHORT

pytestmark = pytest.mark.slow

# What is swept to catch it: the program, the sink's mode, and which kind of moment the process is killed at.
SWEPT: dict[str, tuple[str, dict[str, Any] | None, str]] = {
    "exception_treated_as_failed": ("probe", {"fault": "cut"}, "act.before"),
    "absent_believed_at_once": ("probe", LATE, "act.before"),
    "key_from_the_attempt": ("idempotent", {"fault": "cut"}, "act.before"),
    "probe_answer_ignored": ("probe", None, "act.after"),
    "approval_not_consumed": ("gated", None, "act.after"),
    "digest_without_arguments": ("gated", None, "act.after"),
    "lost_sibling": ("parallel", None, "answer.after"),
    "child_started_twice": ("parent", None, "act.after"),
    "timer_fired_twice": ("timer", None, "act.after"),
    "fork_repeating_an_effect": ("forked", None, "act.after"),
    "compensated_successor_with_the_old_key": ("compensate_keyed", {"fault": "cut"}, "act.before"),
}
ELSEWHERE = {
    "absent_dated_by_its_answer": "test_slow_evidence",
    "undo_dated_by_its_answer": "test_slow_evidence",
    "rule_of_the_loaded_code": "test_changed_rules",
    "no_sync_before_dispatch": "test_lost_power",
    "fence_only_at_settle": "below",
    "deadline_not_looked_at": "below",
    "settle_refused_after_lease_loss": "below",
    "names_before_locks": "below",
    "merged_settle_lost_with_a_refused_dispatch": "below",
    "ambiguous_commit_guessed": "below",
    "restore_forgets_children": "test_restored",
}


def few(moments: list[str], label: str) -> list[int]:
    return [at for at, moment in enumerate(moments, 1) if moment == label][-4:]


def swept(sweep: Sweep, label: str, plant: str) -> Report:
    """Measured without the bug, swept with it."""
    sweep.measure()
    sweep.environment = {scenes.PLANT: plant}
    return sweep.run(choose=lambda moments: few(moments, label))


@pytest.mark.parametrize("plant", SWEPT)
def test_a_planted_bug_is_caught(plant: str, lanes: Lanes, sink: Sink, folder: Path) -> None:
    name, mode, label = SWEPT[plant]
    setup = scenes.be_patient if mode is LATE else scenes.prepare
    clean, report = (
        swept(sweep_of(name, lanes, sink, folder, mode=mode, setup=setup), label, bug) for bug in ("", plant)
    )
    assert clean.failures == []
    assert report.failures != []


def test_a_fence_that_only_stands_at_settle_is_caught(lanes: Lanes, pairs: Pairs, sink: Sink, folder: Path) -> None:
    sweep = disturbed("escalate", lanes, sink, folder)
    moments = sweep.measure()
    before = [at - 1 for at, label in enumerate(moments, 1) if label == "move.before" and 8 < at < 40]
    plant = "fence_only_at_settle"
    trials = sweep_stops(sweep, pairs, before, what="unfenced", forced=True, second_stop=TAKEN, plant=plant)
    assert [line for trial in trials for line in trial.complaints if "effect.dispatched" in line] != []


def test_an_act_after_the_lease_has_ended_is_caught(lanes: Lanes, pairs: Pairs, sink: Sink, folder: Path) -> None:
    sweep = disturbed("escalate", lanes, sink, folder)
    acts = [at for at, label in enumerate(sweep.measure(), 1) if label == "act.before"]
    chosen = [at - back for at in acts for back in range(3)]  # the answer to the dispatch comes before it, or after
    trials = sweep_stops(sweep, pairs, chosen, what="late act", lease=SHORT, plant="deadline_not_looked_at")
    assert [line for trial in trials for line in trial.complaints if "acted afterwards" in line] != []


@pytest.mark.parametrize("plant", ["", "names_before_locks"])
def test_a_living_namesake_taken_for_dead_is_caught(
    plant: str, lanes: Lanes, pairs: Pairs, sink: Sink, folder: Path
) -> None:
    """Two workers share host name and process number; the first is stopped at its act, and the second looks for it."""
    sweep = disturbed("probe", lanes, sink, folder)
    chosen = [at for at, label in enumerate(sweep.measure(), 1) if label == "act.begun"]
    sweep_stops(sweep, pairs, chosen, what="namesakes", forced=True, namesakes=True, plant=plant)
    assert (sweep.report.failures != []) == bool(plant)


def test_a_settle_that_the_epoch_fences_is_caught(lanes: Lanes, pairs: Pairs, sink: Sink, folder: Path) -> None:
    sweep = disturbed("escalate", lanes, sink, folder)
    chosen = [at for at, label in enumerate(sweep.measure(), 1) if label == "act.after"]
    plant = "settle_refused_after_lease_loss"
    trials = sweep_stops(sweep, pairs, chosen, what="settle fenced", forced=True, alone=True, plant=plant)
    assert sum(trial.verdicts for trial in trials) > 0


@pytest.mark.parametrize(("plant", "there"), [("", True), ("merged_settle_lost_with_a_refused_dispatch", False)])
def test_a_settle_survives_a_dispatch_that_is_refused_beside_it(
    plant: str, there: bool, lanes: Lanes, tmp_path: Path
) -> None:
    assert merged_settle_is_there(lanes, tmp_path / "perdure.db", plant) is there


def test_a_guess_about_a_commit_is_caught(lanes: Lanes, sink: Sink, folder: Path) -> None:
    sweep = disturbed("probe", lanes, sink, folder)
    ambiguous(sweep, "gone", "ambiguous_commit_guessed")
    assert sweep.report.failures != []


def test_every_planted_bug_has_its_test() -> None:
    assert set(PLANTS) == set(SWEPT) | set(ELSEWHERE)
    assert len(PLANTS) >= 16
