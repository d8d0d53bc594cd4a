"""Every rule, and every way in which effects are put together, killed at each of its moments on SQLite.

What is outside is counted at the sink. For `escalate` somebody answers who looks at the sink first.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.parallel import Lanes
from perdure.testing.sweep.sweep import Report, Sweep
from tests.ledger import programs, scenes
from tests.ledger.matrix import POSTING, ROWS
from tests.ledger.tables import show
from tests.seed import sample

ALONE = tuple(name for name in ROWS if name != "forked")
UNKNOWN = ("error", "cut")
LATE = {"fault": "late_cut", "delay": 0.03}
COMMITTED = ("commit.after",)
Choice = Callable[[list[str]], Iterable[int]]


def acting(moments: list[str]) -> list[int]:
    """Around acts and probes."""
    return [at for at, label in enumerate(moments, 1) if label.startswith(("act", "probe"))]


def some(most: int, rest: tuple[str, ...] = ("",)) -> Choice:
    """At most so many moments, chosen from the seed: half around acts and probes, half of the rest, by its labels."""

    def choose(moments: list[str]) -> Iterable[int]:
        acts = acting(moments)
        others = [at for at, label in enumerate(moments, 1) if label.startswith(rest) and at not in acts]
        chosen = sample(acts, most // 2)
        return sorted({*chosen, *sample(others, most - len(chosen))})

    return choose


def sweep_of(name: str, lanes: Lanes, sink: Sink, store: Path | str, **more: Any) -> Sweep:
    script = scenes.branch if name == "forked" else None
    return Sweep(lanes, getattr(programs, name).bind(n=3), sink, store, name=name, script=script, **more)


def disturbed(name: str, lanes: Lanes, sink: Sink, store: Path | str, **more: Any) -> Sweep:
    """The same with lives that do what `scenes` has prepared for them, and change their own code for it."""
    return sweep_of(name, lanes, sink, store, setup=scenes.prepare, **more)


def landing_late(name: str, lanes: Lanes, sink: Sink, store: Path | str) -> Sweep:
    return sweep_of(name, lanes, sink, store, setup=scenes.be_patient, mode=LATE)


def mostly_reached(report: Report, chosen: int = 0) -> bool:
    """Which of several threads comes first is chance, so that a life may end before its moment: not all of them."""
    return 4 * report.kills > report.unreached and report.kills + report.unreached >= chosen


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_a_kill_at_any_moment_leaves_every_effect_once(name: str, lanes: Lanes, sink: Sink, folder: Path) -> None:
    report = show(f"{name}, killed", sweep_of(name, lanes, sink, folder).run(choose=some(16)))
    assert report.failures == []
    assert mostly_reached(report, min(16, report.moments))


@pytest.mark.slow
def test_no_branch_repeats_what_it_inherits(lanes: Lanes, sink: Sink, folder: Path) -> None:
    report = show("forked, killed", sweep_of("forked", lanes, sink, folder).run(choose=some(16)))
    assert report.failures == []
    assert mostly_reached(report)


@pytest.mark.slow
@pytest.mark.parametrize("fault", UNKNOWN)
@pytest.mark.parametrize("name", POSTING)
def test_a_kill_beside_a_lost_reply_leaves_every_effect_once(
    name: str, fault: str, lanes: Lanes, sink: Sink, folder: Path
) -> None:
    sweep = sweep_of(name, lanes, sink, folder, mode={"fault": fault})
    report = show(f"{name}, {fault} after the commit", sweep.run(choose=some(8)))
    assert report.failures == []
    assert mostly_reached(report)


@pytest.mark.slow
@pytest.mark.parametrize("name", POSTING)
def test_an_effect_that_lands_after_its_client_died_is_not_done_again(
    name: str, lanes: Lanes, sink: Sink, folder: Path
) -> None:
    report = show(f"{name}, lands late", landing_late(name, lanes, sink, folder).run(choose=some(6, COMMITTED)))
    assert report.failures == []
    assert mostly_reached(report)


@pytest.mark.soak
def test_fifty_thousand_kills_leave_every_effect_once(lanes: Lanes, sink: Sink, folder: Path) -> None:
    """Every program and every fault, with the recovery killed as well, round after round.

    `PERDURE_SOAK_KILLS` says how many, and `PERDURE_SOAK_FROM` the number of the sweep to begin with.
    """
    wanted, number = (
        int(os.environ.get(f"PERDURE_SOAK_{name}", most)) for name, most in (("KILLS", 50_000), ("FROM", 0))
    )
    faults = ("none", *UNKNOWN, "late")
    kinds = [(name, fault) for name in (*ALONE, "forked") for fault in (faults if name in POSTING else faults[:1])]
    kills = 0
    while kills < wanted:
        turn, (name, fault) = number // len(kinds), kinds[number % len(kinds)]
        if fault == "late":  # recovery waits for it, so only acts are swept
            report = landing_late(name, lanes, sink, folder).run(choose=acting)
        else:
            sweep = sweep_of(name, lanes, sink, folder, mode={"fault": fault})
            report = sweep.run(second=lambda first, turn=turn: range(1 + (first + turn) % 7, 90, 7))  # type: ignore[misc]
        kills += show(f"sweep {number}: {name}, {fault}", report).kills
        print(f"sweep {number}: {name}, {fault}, {report.kills} kills in {report.seconds:.0f} s, {kills} so far")
        assert report.failures == []
        number += 1
