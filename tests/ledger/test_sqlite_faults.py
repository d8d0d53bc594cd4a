"""Every rule, and every combination of effects, with every fault on SQLite: each effect happens once."""

import os
from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.server_pool import ServerPool
from tests.ledger.support.faults import around_acts, check_cell, late_sweep_of, unchanged_sweep_of
from tests.ledger.support.figures import show
from tests.ledger.support.matrix import POSTING, ROWS, cells


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fault"), cells("SQLite"))
def test_every_effect_happens_once(name: str, fault: str, pool: ServerPool, sink: Sink, folder: Path) -> None:
    check_cell(name, fault, "SQLite", pool, sink, folder)


@pytest.mark.soak
def test_every_effect_happens_once_in_fifty_thousand_kills(pool: ServerPool, sink: Sink, folder: Path) -> None:
    """Every program and every fault, with the recovery killed as well, round after round.

    `PERDURE_SOAK_KILLS` is the number of kills, and `PERDURE_SOAK_FROM` the number of the first sweep.
    """
    wanted, number = (
        int(os.environ.get(f"PERDURE_SOAK_{name}", most)) for name, most in (("KILLS", 50_000), ("FROM", 0))
    )
    faults = ("none", "error", "cut", "late")
    kinds = [(name, fault) for name in ROWS for fault in (faults if name in POSTING else faults[:1])]
    kills = 0
    while kills < wanted:
        turn, (name, fault) = number // len(kinds), kinds[number % len(kinds)]
        if fault == "late":  # recovery waits for it, so only acts are swept
            report = late_sweep_of(name, pool, sink, folder).run(choose=around_acts)
        else:
            sweep = unchanged_sweep_of(name, pool, sink, folder, mode={"fault": fault})
            report = sweep.run(second=lambda first, turn=turn: range(1 + (first + turn) % 7, 90, 7))  # type: ignore[misc]
        kills += show(f"sweep {number}: {name}, {fault}", report).kills
        print(f"sweep {number}: {name}, {fault}, {report.kills} kills in {report.seconds:.0f} s, {kills} so far")
        assert report.failures == []
        number += 1
