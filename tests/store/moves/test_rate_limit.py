"""Limits of model providers: reservations of several processes, corrections, and delays that a provider asks for."""

from __future__ import annotations

import pytest

from perdure.clock import SECOND
from perdure.errors import ConfigError
from perdure.store.moves import rate_limit
from perdure.store.moves.rate_limit import LONGEST, MINUTE, Reservation
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from tests.store.support import process_tasks
from tests.store.support.process_group import ProcessGroup

pytestmark = pytest.mark.databases("sqlite", "postgres")
NAMES = ("anthropic:big", "anthropic")


def most_in_a_minute(times: list[int]) -> int:
    return max(sum(start <= one < start + MINUTE for one in times) for start in times)


def reserve(store: Store, tokens: int = 0) -> Reservation:
    return store.write_now(rate_limit.reserve(NAMES, tokens))


def seconds_until(store: Store, tokens: int = 0) -> float:
    return (reserve(store, tokens).at - store.clock.now()) / SECOND


@pytest.mark.parametrize("limit", [1, 7, 50])
def test_processes_together_keep_to_a_limit_of_requests(limit: int, target: str, processes: ProcessGroup) -> None:
    with open_store(target) as store:
        store.write_now(rate_limit.set_limit("anthropic", "ada", requests=limit))
    each = 3 * limit // 4 + 1
    granted = processes.run(process_tasks.reserve_requests, [(target, NAMES, each)] * 4)
    times = sorted(at for one in granted for at in one)
    assert len(times) == 4 * each
    assert most_in_a_minute(times) == limit


def test_tokens_exceed_their_limit_by_one_call_at_most(store: Store) -> None:
    store.write_now(rate_limit.set_limit("anthropic", "ada", tokens=40_000))
    times = [reserve(store, 3000).at for _ in range(60)]
    assert most_in_a_minute(times) * 3000 <= 43_000


def test_a_call_above_the_limit_of_tokens_is_still_sent(store: Store) -> None:
    store.write_now(rate_limit.set_limit("anthropic", "ada", tokens=1000))
    assert seconds_until(store, 5000) == 0
    assert seconds_until(store, 1) > 240


def test_tokens_that_were_not_used_are_free_again(store: Store) -> None:
    store.write_now(rate_limit.set_limit("anthropic", "ada", tokens=1000))
    made = reserve(store, 900)
    store.write_now(rate_limit.correct(made, 10))
    assert seconds_until(store, 50) == 0
    store.write_now(rate_limit.correct(reserve(store, 1), 2**53))
    assert 0 < seconds_until(store, 1) <= LONGEST / SECOND


def test_a_reservation_that_runs_twice_delays_and_exceeds_no_limit(store: Store) -> None:
    store.write_now(rate_limit.set_limit("anthropic", "ada", requests=10, tokens=40_000))
    times = []
    for _ in range(20):
        move = rate_limit.reserve(NAMES, 3000)
        first, again = store.write_now(move), store.write_now(move)
        assert first.at <= again.at
        times.append(again.at)
    assert most_in_a_minute(times) <= 10
    assert most_in_a_minute(times) * 3000 <= 43_000


def test_the_stricter_of_two_limits_holds(store: Store) -> None:
    store.write_now(rate_limit.set_limit("anthropic", "ada", requests=60))
    store.write_now(rate_limit.set_limit("anthropic:big", "ada", requests=1))
    assert [round(seconds_until(store)) for _ in range(3)] == [0, 60, 120]
    assert store.write_now(rate_limit.reserve(("anthropic:small", "anthropic"), 0)).at <= store.clock.now() + MINUTE * 2


def test_a_delay_of_the_provider_holds_for_all_callers(store: Store, clock: ManualClock) -> None:
    store.write_now(rate_limit.block(NAMES, store.clock.now() + 30 * SECOND))
    store.write_now(rate_limit.block(NAMES, store.clock.now() + 10 * SECOND))
    assert [seconds_until(store), seconds_until(store)] == [30, 30]
    assert [row.name for row in store.read_now(rate_limit.in_force, NAMES)] == ["anthropic:big"]
    clock.advance(seconds=31)
    assert store.read_now(rate_limit.in_force, NAMES) == []
    assert seconds_until(store) == 0


def test_a_delay_belongs_to_the_limit_that_was_set(store: Store) -> None:
    store.write_now(rate_limit.set_limit("anthropic", "ada", requests=10))
    store.write_now(rate_limit.block(NAMES, store.clock.now() + 30 * SECOND))
    assert [row.name for row in store.read_now(rate_limit.listing)] == ["anthropic"]
    store.write_now(rate_limit.set_limit("anthropic", "ada", tokens=10))
    (row,) = store.read_now(rate_limit.listing)
    assert (row.requests, row.tokens, row.blocked_until) == (10, 10, None)


def test_a_clock_that_is_set_back_delays_by_a_bounded_time(store: Store, clock: ManualClock) -> None:
    store.write_now(rate_limit.set_limit("anthropic", "ada", requests=1))
    reserve(store)
    clock.set(hours=-240)
    assert seconds_until(store) <= LONGEST / SECOND


def test_a_limit_of_nothing_is_removed(store: Store) -> None:
    store.write_now(rate_limit.set_limit("anthropic", "ada", requests=1))
    store.write_now(rate_limit.set_limit("anthropic", "ada", requests=None))
    assert store.read_now(rate_limit.listing) == []
    assert seconds_until(store) == 0


@pytest.mark.parametrize("wrong", [0, -1, 2**41, True])
def test_a_wrong_limit_is_refused(wrong: int, store: Store) -> None:
    with pytest.raises(ConfigError, match="requests"):
        store.write_now(rate_limit.set_limit("anthropic", "ada", requests=wrong))
    assert store.read_now(rate_limit.listing) == []
