"""The disk loses what was not synced; the outside world does not. Nothing is done twice even so."""

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.parallel import Lanes
from tests.ledger.power import cut_power
from tests.seed import chance

pytestmark = pytest.mark.slow


def cut(lanes: Lanes, sink: Sink, program: str, plant: str, states: int, seed: int) -> dict[str, object]:
    base = sink.url.rpartition("/")[0]
    told = {"base": base, "program": program, "plant": plant, "states": states, "seed": seed}
    found: dict[str, object] = lanes.call(cut_power, patience=300.0, **told)
    return found


@pytest.mark.parametrize("program", ["escalate", "probe"])
def test_a_power_cut_at_any_write_leaves_every_effect_once(program: str, lanes: Lanes, sink: Sink) -> None:
    report = cut(lanes, sink, program, "", states=60, seed=chance().randrange(1_000_000))
    assert report["failures"] == []


def test_a_dispatch_that_is_not_synced_is_caught(lanes: Lanes, sink: Sink) -> None:
    report = cut(lanes, sink, "escalate", "no_sync_before_dispatch", states=60, seed=1)
    assert report["failures"] != []
