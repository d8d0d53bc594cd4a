"""The disk loses what was not synced; the outside world does not. Nothing happens twice even so."""

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.server_pool import ServerPool
from tests.ledger.support.power_cut import cut_power
from tests.seed import chance

pytestmark = pytest.mark.slow


def cut(pool: ServerPool, sink: Sink, program: str, plant: str, states: int, seed: int) -> dict[str, object]:
    base = sink.url.rpartition("/")[0]
    arguments = {"base": base, "program": program, "plant": plant, "states": states, "seed": seed}
    found: dict[str, object] = pool.call(cut_power, timeout=300.0, **arguments)
    return found


@pytest.mark.parametrize("program", ["escalate", "probe"])
def test_every_effect_happens_once_after_a_power_cut(program: str, pool: ServerPool, sink: Sink) -> None:
    report = cut(pool, sink, program, "", states=60, seed=chance().randrange(1_000_000))
    assert report["failures"] == []


def test_a_dispatch_that_is_not_synced_is_caught(pool: ServerPool, sink: Sink) -> None:
    report = cut(pool, sink, "escalate", "no_sync_before_dispatch", states=60, seed=1)
    assert report["failures"] != []
