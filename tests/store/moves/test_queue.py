"""Queues: limits that change while they run, and counts that an index answers."""

from typing import Any

import pytest

from perdure.domain.session import Status
from perdure.errors import ConfigError, IllegalMove
from perdure.store.moves import lease, meta, queue, session
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import TTL, a_holder, a_session


def test_limits_are_changed_one_at_a_time(store: Store, clock: ManualClock) -> None:
    assert store.read_now(queue.get, "builds") is None
    made = store.write_now(queue.set_limits("builds", "ada", concurrency=3, rate_count=10, rate_period=60))
    assert (made.concurrency, made.rate_count, made.rate_period, made.per_key) == (3, 10, 60, None)
    assert made.limits_claims
    changed = store.write_now(queue.set_limits("builds", "bob", concurrency=None, per_key=1, paused=True, closed=True))
    assert (changed.concurrency, changed.per_key, changed.rate_count) == (None, 1, 10)
    assert (changed.paused_at, changed.closed_at, changed.updated_by) == (clock.now(), clock.now(), "bob")
    assert changed.version == made.version + 1
    clock.advance(seconds=1)
    again = store.write_now(queue.set_limits("builds", "eve", per_key=1, paused=True))
    assert again == changed
    opened = store.write_now(queue.set_limits("builds", "bob", paused=False, rate_count=None, rate_period=None))
    assert (opened.paused_at, opened.closed_at is None, opened.rate_count) == (None, False, None)
    assert store.read_now(queue.get, "builds") == opened


@pytest.mark.parametrize(
    "wrong",
    [{"concurrency": -1}, {"per_key": 0}, {"per_worker": 0}, {"max_depth": 0}, {"concurrency": 2**63},
     {"concurrency": "3"}, {"rate_count": 3}, {"rate_count": 3, "rate_period": None},
     {"rate_count": 0, "rate_period": 1},
     {"version": 7}, {"rate_at": 1}],
)  # fmt: skip
@pytest.mark.databases("memory")
def test_wrong_limits_are_refused(store: Store, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        store.write_now(queue.set_limits("builds", "ada", **wrong))
    assert store.read_now(queue.get, "builds") is None


@pytest.mark.databases("memory")
def test_limits_are_refused_while_older_workers_may_run(store: Store) -> None:
    store.write_now(meta.put("compatible_from", "7"))
    with pytest.raises(IllegalMove, match="older version"):
        store.write_now(queue.set_limits("builds", "ada", concurrency=1))


@pytest.mark.databases("memory")
def test_a_name_that_is_no_name_is_refused(store: Store) -> None:
    for name in ("", "a b", "x" * 201):
        with pytest.raises(ConfigError):
            store.write_now(queue.set_limits(name, "ada", concurrency=1))


def test_queues_are_listed_with_their_sessions(store: Store, clock: ManualClock) -> None:
    store.write_now(queue.set_limits("empty", "ada", concurrency=0))
    first = clock.now()
    a_session(store, queue="builds", priority=-5)
    clock.advance(seconds=5)
    a_session(store, queue="builds", priority=3)
    running = a_session(store, queue="builds")
    store.write_now(lease.acquire(running.uid, "w", nonce="n", ttl=TTL))
    failed = a_holder(store, a_session(store, queue="other").uid)
    store.write_now(session.finish(failed, Status.FAILED, error={"code": "x"}))
    builds, empty, other = store.read_now(queue.listing)
    assert (builds.name, builds.ready, builds.running, builds.failed, builds.slot) == ("builds", 2, 1, 0, 0)
    assert (builds.oldest_ready_at, builds.version, builds.concurrency) == (first, 0, None)
    assert (empty.name, empty.concurrency, empty.ready, empty.oldest_ready_at) == ("empty", 0, 0, None)
    assert (other.name, other.ready, other.failed) == ("other", 0, 1)


def test_depth_is_counted_up_to_a_limit(store: Store) -> None:
    a_session(store, queue="builds")
    a_session(store, queue="builds")
    a_session(store, queue="other")
    assert [store.read_now(queue.depth, "builds", most) for most in (1, 2, 3)] == [1, 2, 2]
