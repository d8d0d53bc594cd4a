"""Code that changes its rule between the kill and the resume: the stricter of the two rules applies."""

from functools import partial
from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.report import Report
from perdure.testing.sweep.server_pool import ServerPool
from perdure.testing.sweep.sweep import Sweep
from tests.ledger.support.faults import around_acts, change_rule, sweep_of
from tests.ledger.support.figures import show
from tests.seed import sample

pytestmark = pytest.mark.slow
# The program, and what its tool is declared as when it is resumed; probes and undos stay.
CHANGES = {
    "escalate": ("mail=idempotent", "mail=pure"),
    "probe": ("comment=idempotent", "comment=pure"),
    "compensate": ("book=idempotent",),
}


def changed(sweep: Sweep, change: str, most: int, plant: str = "") -> Report:
    sweep.run_trials(lambda moments: sample(around_acts(moments), most), partial(change_rule, sweep, change, plant))
    return sweep.report


@pytest.mark.parametrize(("name", "change"), [(name, one) for name, some in CHANGES.items() for one in some])
def test_changed_code_repeats_nothing(
    name: str, change: str, pool: ServerPool, sink: Sink, sweep_store: Path | str
) -> None:
    sweep = sweep_of(name, pool, sink, sweep_store)
    what, most = (f"{name}, then {change}, PostgreSQL", 2) if sweep.url else (f"{name}, then {change}", 4)
    report = show(what, changed(sweep, change, most))
    assert report.failures == []
    assert report.kills > 0


def test_following_the_loaded_code_is_caught(pool: ServerPool, sink: Sink, folder: Path) -> None:
    report = changed(sweep_of("escalate", pool, sink, folder), "mail=idempotent", 6, "rule_of_the_loaded_code")
    assert report.failures != []
