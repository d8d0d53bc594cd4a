"""Leases of named resources: the same rules without a session."""

import pytest

from perdure.domain.lease import Lease
from perdure.errors import LeaseHeld, LeaseLost
from perdure.store.moves import lease
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import TTL


def take(store: Store, holder: str, nonce: str, resource: str = "deploy:api") -> Lease:
    return store.write_now(lease.acquire_named(resource, holder=holder, nonce=nonce, ttl=TTL))


def test_a_resource_is_held_by_one(store: Store, clock: ManualClock) -> None:
    held = take(store, "w-1", "n-1")
    assert held == Lease("deploy:api", "w-1", "n-1", 1, clock.now() + TTL)
    with pytest.raises(LeaseHeld, match="w-1"):
        take(store, "w-2", "n-2")
    assert take(store, "w-2", "n-2", "deploy:web").epoch == 1
    assert [one.resource for one in store.read_now(lease.named_leases)] == ["deploy:api", "deploy:web"]


def test_the_same_nonce_is_the_same_acquisition(store: Store, clock: ManualClock) -> None:
    held = take(store, "w-1", "n-1")
    clock.advance(seconds=30)
    assert take(store, "w-1", "n-1") == held


def test_renewing_prolongs_it(store: Store, clock: ManualClock) -> None:
    held = take(store, "w-1", "n-1")
    clock.advance(seconds=59)
    renewed = store.write_now(lease.renew_named(held, ttl=TTL))
    assert (renewed.epoch, renewed.until) == (1, clock.now() + TTL)
    clock.advance(seconds=59)
    with pytest.raises(LeaseHeld):
        take(store, "w-2", "n-2")


def test_giving_it_back_frees_it_and_keeps_the_epoch(store: Store) -> None:
    held = take(store, "w-1", "n-1")
    assert store.write_now(lease.release_named(held)) is True
    assert store.write_now(lease.release_named(held)) is True  # the answer to the first may have been lost
    assert store.read_now(lease.named_leases) == [Lease("deploy:api", None, None, 1, None)]
    assert take(store, "w-2", "n-2").epoch == 2
    assert store.write_now(lease.release_named(held)) is False


def test_an_expired_resource_is_free_and_lost_to_its_holder(store: Store, clock: ManualClock) -> None:
    old = take(store, "w-1", "n-1")
    clock.advance(seconds=60)
    with pytest.raises(LeaseHeld):
        take(store, "w-2", "n-2")
    clock.advance(seconds=0.000001)
    new = take(store, "w-2", "n-2")
    assert new.epoch == 2
    with pytest.raises(LeaseLost):
        store.write_now(lease.renew_named(old, ttl=TTL))
    assert store.write_now(lease.release_named(old)) is False
    assert store.read_now(lease.named_leases) == [new]
