"""A worker stopped with SIGSTOP, another one in its place, and SIGCONT: the first neither acts nor moves any more."""

import os
import random
from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.parallel import Lanes
from perdure.testing.sweep.sweep import LIVE, Place
from tests.ledger.matrix import ROWS
from tests.ledger.stops import TAKEN, Pairs, Trial, sweep_stops
from tests.ledger.test_kills import disturbed
from tests.seed import sample

RULES = ("idempotent", "probe", "compensate", "escalate")
SHORT = "300ms"


def around_commits(moments: list[str], most: int) -> list[int]:
    """Some moments after a commit or its answer, and some around acts; the first ones have no lease to lose."""
    after = [at for at, label in enumerate(moments, 1) if label in ("commit.after", "answer.after")]
    acts = [at for at, label in enumerate(moments, 1) if label.startswith("act")]
    return sorted({*sample(after[2:], most // 2), *sample(acts, most // 2)})


def no_complaints(trials: list[Trial]) -> bool:
    assert [line for trial in trials for line in trial.complaints] == []
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_a_stopped_worker_neither_acts_nor_moves_when_its_lease_has_ended(
    name: str, lanes: Lanes, pairs: Pairs, sink: Sink, folder: Path
) -> None:
    chosen = sample(range(6, 44), 10)
    sweep = disturbed(name, lanes, sink, folder)
    trials = sweep_stops(sweep, pairs, chosen, what="stopped", lease=SHORT)
    assert sweep.report.failures == []
    assert no_complaints(trials)
    assert len(trials) > len(chosen) / 2


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ROWS if name not in RULES])
def test_the_same_where_effects_are_put_together(
    name: str, lanes: Lanes, pairs: Pairs, sink: Sink, folder: Path
) -> None:
    sweep = disturbed(name, lanes, sink, folder)
    chosen = around_commits(sweep.measure(), 4)
    trials = sweep_stops(sweep, pairs, chosen, what="stopped", lease=SHORT)
    assert sweep.report.failures == []
    assert no_complaints(trials)
    assert len(trials) > len(chosen) / 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_a_worker_whose_lease_was_taken_by_force_does_nothing_twice(
    name: str, lanes: Lanes, pairs: Pairs, sink: Sink, folder: Path
) -> None:
    """Stopped at each position in turn; its own clock still says that the lease is its own."""
    sweep = disturbed(name, lanes, sink, folder)
    chosen = around_commits(sweep.measure(), 4)
    trials = sweep_stops(sweep, pairs, chosen, what="lease lost", forced=True)
    assert sweep.report.failures == []
    assert no_complaints(trials)
    assert len(trials) > len(chosen) / 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["escalate", "probe"])
def test_an_old_holder_cannot_dispatch_before_the_new_one_does(
    name: str, lanes: Lanes, pairs: Pairs, sink: Sink, folder: Path
) -> None:
    """Both are stopped: the old one before a dispatch, the new one right after it took the lease."""
    sweep = disturbed(name, lanes, sink, folder)
    moments = sweep.measure()
    begins = [at for at, label in enumerate(moments, 1) if label == "move.before" and 8 < at < 40]
    before = [max(1, at - 1) for at in begins]
    trials = sweep_stops(sweep, pairs, before, what="two stopped", forced=True, second_stop=TAKEN)
    assert sweep.report.failures == []
    assert no_complaints(trials)
    assert len(trials) > len(before) / 2


@pytest.mark.slow
def test_what_a_worker_knows_is_accepted_after_its_lease_is_lost(
    lanes: Lanes, pairs: Pairs, sink: Sink, folder: Path
) -> None:
    """It acted and was stopped before it could say so; the second has nobody to ask. Nobody needs to be asked."""
    sweep = disturbed("escalate", lanes, sink, folder)
    chosen = [at for at, label in enumerate(sweep.measure(), 1) if label == "act.after"]
    trials = sweep_stops(sweep, pairs, chosen, what="settled late", forced=True, alone=True)
    assert sweep.report.failures == []
    assert [trial.verdicts for trial in trials] == [0, 0]


@pytest.mark.slow
def test_a_second_process_is_refused_and_told_who_holds_the_session(
    lanes: Lanes, pairs: Pairs, sink: Sink, folder: Path
) -> None:
    sweep = disturbed("probe", lanes, sink, folder)
    moments = sweep.measure()
    acting = moments.index("act.after") + 1
    with pairs.take() as (one, other), Place(sweep) as place:
        first = one.begin(LIVE, **place.told, fatal=acting, how="stop")
        assert first.until("stopped") == "act.after"
        first.wait_stopped()
        refused = other.run(LIVE, **place.told | {"template": None}).result["ends"][0]
        first.go_on()
        done = first.end().result["ends"][0]
    assert refused["refused"] == "lease-held"
    assert f":{first.pid}" in refused["holder"]
    assert refused["holder"] in refused["message"]
    assert done[0][0] == "done"


@pytest.mark.soak
@pytest.mark.parametrize("name", RULES)
def test_a_thousand_stops(name: str, lanes: Lanes, pairs: Pairs, sink: Sink, folder: Path) -> None:
    """`PERDURE_SOAK_STOPS` says how many, of all rules together."""
    count = int(os.environ.get("PERDURE_SOAK_STOPS", "1000")) // len(RULES)
    chosen = random.Random(f"soak {name}").choices(range(2, 44), k=count)
    sweep = disturbed(name, lanes, sink, folder)
    trials = sweep_stops(sweep, pairs, chosen, what="stopped, long", lease=SHORT)
    print(f"{name}: {len(trials)} stops in {sweep.report.seconds:.0f} s")
    assert sweep.report.failures == []
    assert no_complaints(trials)
    assert len(trials) > 0.8 * count
