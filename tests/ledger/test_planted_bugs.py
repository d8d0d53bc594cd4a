"""Every planted bug is caught: one that no test catches would be a gap in the tests."""

from pathlib import Path
from typing import Any

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.report import Report
from perdure.testing.sweep.server_pool import ServerPool
from perdure.testing.sweep.sweep import Sweep
from tests.ledger.support import process_setup
from tests.ledger.support.faults import LATE, SHORT, Choice, fail_commits, labelled, stop_workers, sweep_of
from tests.ledger.support.merged_settle import merged_settle_is_there
from tests.ledger.support.planted_bugs import PLANTS
from tests.ledger.support.stopped_worker import TAKEN, StopResult, complaints_of

pytestmark = pytest.mark.slow

# What is swept to catch it: the program, the mode of the sink, and the kind of point at which the process is killed.
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
    "no_sync_before_dispatch": "test_power_loss",
    "fence_only_at_settle": "below",
    "deadline_not_checked": "below",
    "settle_refused_after_lease_loss": "below",
    "names_before_locks": "below",
    "merged_settle_lost_with_a_refused_dispatch": "below",
    "ambiguous_commit_guessed": "below",
    "restore_forgets_children": "test_restore",
}


def swept(sweep: Sweep, label: str, plant: str) -> Report:
    """Measured without the bug, swept with it."""
    sweep.measure()
    sweep.environment = {process_setup.PLANT: plant}
    return sweep.run(choose=lambda moments: labelled(moments, label)[-4:])


@pytest.mark.parametrize("plant", SWEPT)
def test_a_planted_bug_is_caught(plant: str, pool: ServerPool, sink: Sink, folder: Path) -> None:
    name, mode, label = SWEPT[plant]
    setup = process_setup.be_patient if mode is LATE else process_setup.prepare

    def run(bug: str) -> Report:
        return swept(sweep_of(name, pool, sink, folder, mode=mode, setup=setup), label, bug)

    assert run("").failures == []
    for _ in range(5 if mode is LATE else 1):  # on a slow machine, what is to land late may land in time
        if run(plant).failures:
            return
    pytest.fail("The planted bug was not caught.")


def stopped(sweep: Sweep, choose: Choice, plant: str, **how: Any) -> list[StopResult]:
    return [one for one in stop_workers(sweep, choose, plant=plant, **how) if one is not None]


def test_a_fence_that_only_holds_at_settle_is_caught(pool: ServerPool, sink: Sink, folder: Path) -> None:
    def before_dispatches(moments: list[str]) -> list[int]:
        return [at - 1 for at in labelled(moments, "move.before") if 8 < at < 40]

    sweep = sweep_of("escalate", pool, sink, folder)
    results = stopped(sweep, before_dispatches, "fence_only_at_settle", forced=True, second_stop=TAKEN)
    assert [line for line in complaints_of(results) if "effect.dispatched" in line] != []


def test_an_act_after_the_end_of_the_lease_is_caught(pool: ServerPool, sink: Sink, folder: Path) -> None:
    def before_acts(moments: list[str]) -> list[int]:
        # The answer to the dispatch comes before it, or after.
        return [at - back for at in labelled(moments, "act.before") for back in range(3)]

    sweep = sweep_of("escalate", pool, sink, folder)
    results = stopped(sweep, before_acts, "deadline_not_checked", lease=SHORT)
    assert [line for line in complaints_of(results) if "acted afterwards" in line] != []


@pytest.mark.parametrize("plant", ["", "names_before_locks"])
def test_a_living_namesake_treated_as_dead_is_caught(plant: str, pool: ServerPool, sink: Sink, folder: Path) -> None:
    """Two workers share host name and process number; the first is stopped at its act, and the second looks for it."""
    sweep = sweep_of("probe", pool, sink, folder)
    stopped(sweep, lambda moments: labelled(moments, "act.begun"), plant, forced=True, namesakes=True)
    assert (sweep.report.failures != []) == bool(plant)


def test_a_settle_fenced_by_the_epoch_is_caught(pool: ServerPool, sink: Sink, folder: Path) -> None:
    sweep = sweep_of("escalate", pool, sink, folder)
    plant = "settle_refused_after_lease_loss"
    results = stopped(sweep, lambda moments: labelled(moments, "act.after"), plant, forced=True, alone=True)
    assert sum(result.verdicts for result in results) > 0


@pytest.mark.parametrize(("plant", "there"), [("", True), ("merged_settle_lost_with_a_refused_dispatch", False)])
def test_a_settle_survives_a_refused_dispatch_in_its_group(
    plant: str, there: bool, pool: ServerPool, tmp_path: Path
) -> None:
    assert merged_settle_is_there(pool, tmp_path / "perdure.db", plant) is there


def test_guessing_the_outcome_of_a_commit_is_caught(pool: ServerPool, sink: Sink, folder: Path) -> None:
    sweep = sweep_of("probe", pool, sink, folder)
    fail_commits(sweep, "gone", "ambiguous_commit_guessed")
    assert sweep.report.failures != []


def test_every_planted_bug_has_a_test() -> None:
    assert set(PLANTS) == set(SWEPT) | set(ELSEWHERE)
    assert len(PLANTS) >= 16
