"""Recovery is killed or meets a vote, an undo is killed half-way, and commits fail with an unknown outcome."""

from functools import partial
from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.server_pool import ServerPool
from tests.ledger.support.faults import RULES, fail_commits, labelled, sweep_of, unchanged_sweep_of, vote_in_recovery
from tests.ledger.support.figures import show
from tests.seed import sample

pytestmark = pytest.mark.slow


def after_first_act(moments: list[str]) -> list[int]:
    """The point at which the first effect has landed and is not recorded."""
    return labelled(moments, "act.after")[:1]


@pytest.mark.parametrize("name", RULES)
def test_every_effect_happens_once_when_the_recovery_is_killed(
    name: str, pool: ServerPool, sink: Sink, folder: Path
) -> None:
    """The first process dies when an effect has landed unrecorded; the second at some of its points."""
    sweep = unchanged_sweep_of(name, pool, sink, folder)
    second = sample(range(1, 60), 14)
    report = show(f"{name}, recovery killed", sweep.run(choose=after_first_act, second=lambda _: second))
    assert report.failures == []
    assert report.kills > len(second)  # usually almost twice as many: a recovery may be over before its point


def test_an_undo_killed_half_way_is_finished_by_the_next_process(pool: ServerPool, sink: Sink, folder: Path) -> None:
    """With a lost reply the first process already undoes; wherever it and the second die, the third ends right."""
    sweep = unchanged_sweep_of("compensate", pool, sink, folder, mode={"fault": "cut"})

    def around_undo(moments: list[str]) -> list[int]:
        return labelled(moments, "act")[3:6]  # the first undo: before, begun, after

    second = sample(range(1, 60), 8)
    report = show("undo, killed twice", sweep.run(choose=around_undo, second=lambda _: second))
    assert report.failures == []
    assert report.kills > 3 * len(second)  # usually almost six times as many


@pytest.mark.parametrize("name", ["gated", "escalate"])
def test_a_vote_at_any_point_of_the_recovery_counts_once(
    name: str, pool: ServerPool, sink: Sink, sweep_store: Path | str
) -> None:
    """Two people answer: one elsewhere, while the process whose own person answers too is stopped."""
    sweep = sweep_of(name, pool, sink, sweep_store)
    early, later = (range(2, 6), 2) if sweep.url else (range(1, 9), 8)  # in the early ones the question is still open
    chosen = [*early, *sample(range(9, 37), later)]
    votes = sweep.run_trials(lambda _: chosen, partial(vote_in_recovery, sweep))
    what = f"{name}, vote in recovery" + (", PostgreSQL" if sweep.url else "")
    report = show(what, sweep.report, kind="stops before a vote")
    assert report.failures == []
    assert sum(votes) > 0


@pytest.mark.parametrize("kept", ["held", "gone"])
@pytest.mark.parametrize("name", ["probe", "escalate", "joint", "compensate"])
def test_a_commit_with_unknown_outcome_changes_nothing(
    name: str, kept: str, pool: ServerPool, sink: Sink, folder: Path
) -> None:
    sweep = sweep_of(name, pool, sink, folder)
    commits = fail_commits(sweep, kept, most=6)
    report = show(f"{name}, ambiguous commit {kept}", sweep.report, kind="commits that failed")
    assert report.failures == []
    assert commits > 5
