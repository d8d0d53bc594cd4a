"""Every rule, and every way in which effects are put together, killed at each of its moments on SQLite.

What is outside is counted at the sink. For `escalate` somebody answers who looks at the sink first.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from perdure.testing import Sink
from perdure.testing.sweep import Lanes, Sweep
from tests.ledger import programs, scenes
from tests.ledger.tables import show

ALONE = ("pure", "idempotent", "probe", "compensate", "escalate", "joint", "gated", "parallel", "parent", "timer")
POSTING = ("idempotent", "probe", "compensate", "escalate", "parallel")
UNKNOWN = ("error", "cut")
LATE = {"fault": "late_cut", "delay": 0.03}


def every_second(moments: list[str]) -> Iterable[int]:
    """Around every act, and every second of the rest."""
    return [at for at, label in enumerate(moments, 1) if at % 2 or label.startswith(("act", "probe"))]


def around_acts(moments: list[str]) -> Iterable[int]:
    """The acts, and what is committed right before and after them."""
    return [at for at, label in enumerate(moments, 1) if label.startswith(("act", "probe", "commit"))]


def sweep_of(name: str, lanes: Lanes, sink: Sink, store: Path | str, **more: Any) -> Sweep:
    return Sweep(lanes, getattr(programs, name).bind(n=3), sink, store, name=name, **more)


def disturbed(name: str, lanes: Lanes, sink: Sink, store: Path | str, **more: Any) -> Sweep:
    """The same with lives that do what `scenes` has prepared for them, and change their own code for it."""
    return sweep_of(name, lanes, sink, store, setup=scenes.prepare, **more)


def every_fourth(moments: list[str]) -> Iterable[int]:
    return list(every_second(moments))[::2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_a_kill_at_any_moment_leaves_every_effect_once(name: str, lanes: Lanes, sink: Sink, folder: Path) -> None:
    report = show(f"{name}, killed", sweep_of(name, lanes, sink, folder).run())
    assert report.failures == []
    assert report.kills > 25


@pytest.mark.slow
def test_no_branch_repeats_what_it_inherits(lanes: Lanes, sink: Sink, folder: Path) -> None:
    sweep = sweep_of("forked", lanes, sink, folder, script=scenes.branch)
    report = show("fork, killed", sweep.run(choose=every_fourth))
    assert report.failures == []
    assert report.kills > 40


@pytest.mark.slow
@pytest.mark.parametrize("fault", UNKNOWN)
@pytest.mark.parametrize("name", POSTING)
def test_a_kill_beside_a_lost_reply_leaves_every_effect_once(
    name: str, fault: str, lanes: Lanes, sink: Sink, folder: Path
) -> None:
    sweep = sweep_of(name, lanes, sink, folder, mode={"fault": fault})
    report = show(f"{name}, {fault} after the commit", sweep.run(choose=every_second))
    assert report.failures == []
    assert report.kills > 30


@pytest.mark.slow
@pytest.mark.parametrize("name", ["idempotent", "probe_slow", "compensate_slow", "escalate_slow"])
def test_an_effect_that_lands_after_its_client_died_is_not_done_again(
    name: str, lanes: Lanes, sink: Sink, folder: Path
) -> None:
    report = show(f"{name}, lands late", sweep_of(name, lanes, sink, folder, mode=LATE).run(choose=around_acts))
    assert report.failures == []
    assert report.kills > 8


@pytest.mark.soak
def test_fifty_thousand_kills_leave_every_effect_once(lanes: Lanes, sink: Sink, folder: Path) -> None:
    """Every program and every fault, with the recovery killed as well, round after round."""
    kills, offset = 0, 0
    while kills < 50_000:
        for name in ALONE:
            for fault in ("none", *UNKNOWN) if name in POSTING else ("none",):
                sweep = sweep_of(name, lanes, sink, folder, mode={"fault": fault})
                at = offset
                report = sweep.run(second=lambda first, at=at: range(1 + (first + at) % 7, 90, 7))  # type: ignore[misc]
                kills += show(f"{name}, {fault}, round {offset}", report).kills
                assert report.failures == []
        offset += 1
