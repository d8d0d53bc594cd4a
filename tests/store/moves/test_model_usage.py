"""What models cost, by day, session and model."""

from __future__ import annotations

from perdure.store.moves import message
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import a_holder, a_session, rows

DAY = 86_400_000_000


def test_each_call_is_added_to_its_day_session_and_model(store: Store, clock: ManualClock) -> None:
    clock.advance(seconds=(DAY - clock.now() % DAY) / 1_000_000 - 1)  # a second before midnight
    one, other = (a_holder(store, a_session(store, owner=owner).uid) for owner in ("ada", None))
    start = clock.now() - clock.now() % DAY
    for holder, model in ((one, "m"), (one, "m"), (one, "n"), (other, "m")):
        store.write_now(message.add_usage(holder, tokens_in=10, tokens_out=1, cost_micros=5, model=model))
    clock.advance(seconds=1)
    store.write_now(message.add_usage(one, tokens_in=10, tokens_out=1, cost_micros=5, model="m"))
    assert sorted(rows(store, "model_usage"), key=repr) == sorted(
        [
            (start, one.uid, "m", "ada", 2, 20, 2, 10),
            (start, one.uid, "n", "ada", 1, 10, 1, 5),
            (start, other.uid, "m", None, 1, 10, 1, 5),
            (start + DAY, one.uid, "m", "ada", 1, 10, 1, 5),
        ],
        key=repr,
    )
