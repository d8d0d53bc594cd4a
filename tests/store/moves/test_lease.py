"""Leases: one holder at a time, every acquisition raises the epoch, an old epoch never comes back."""

from typing import Any

import pytest

from perdure.domain.lease import RESTORE_SHIFT, Holder
from perdure.domain.session import Status
from perdure.domain.wait import WaitKind
from perdure.errors import IllegalMove, LeaseHeld, LeaseLost, NotFound
from perdure.store.move import Move
from perdure.store.moves import event, inbox, lease, meta, session, wait
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from tests.store.support.sessions import TTL, a_holder, a_session, session_of


def test_the_first_to_acquire_holds_the_session(store: Store, clock: ManualClock) -> None:
    uid = a_session(store).uid
    holder = store.write_now(lease.acquire(uid, "worker-1", nonce="n-1", ttl=TTL))
    assert (holder.uid, holder.name, holder.nonce, holder.epoch) == (uid, "worker-1", "n-1", 1)
    now = session_of(store, uid)
    assert (now.status, now.lease_holder, now.lease_nonce) == ("running", "worker-1", "n-1")
    assert (now.lease_epoch, now.lease_until) == (1, clock.now() + TTL)
    assert (holder.cursor, holder.chain) == (now.cursor, now.chain)


def test_a_refused_acquisition_names_the_holder_and_the_remaining_time(store: Store) -> None:
    holder = a_holder(store)
    with pytest.raises(LeaseHeld, match=r"worker-1 for up to 60 s") as caught:
        store.write_now(lease.acquire(holder.uid, "worker-2", nonce="n-2", ttl=TTL))
    assert caught.value.details["holder"] == "worker-1"
    assert session_of(store, holder.uid).lease_epoch == holder.epoch


def test_the_same_nonce_is_the_same_acquisition(store: Store, clock: ManualClock) -> None:
    uid = a_session(store).uid
    first = store.write_now(lease.acquire(uid, "worker-1", nonce="n-1", ttl=TTL))
    store.write_now(inbox.receive(uid, "ada", "m-1", "hello"))
    clock.advance(seconds=5)
    again = store.write_now(lease.acquire(uid, "worker-1", nonce="n-1", ttl=TTL))
    assert (again.epoch, again.nonce, again.name) == (first.epoch, first.nonce, first.name)
    now = session_of(store, uid)
    assert (again.cursor, again.chain) == (now.cursor, now.chain)
    assert (now.lease_until, now.cursor) == (clock.now() - 5_000_000 + TTL, 3)
    store.write_now(event.append(again, "note"))


def test_a_lease_is_held_until_its_end_and_free_after(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store)
    clock.advance(seconds=60)
    with pytest.raises(LeaseHeld):
        a_holder(store, holder.uid, by="worker-2")
    clock.advance(seconds=0.000001)
    second = a_holder(store, holder.uid, by="worker-2")
    assert second.epoch == holder.epoch + 1
    assert session_of(store, holder.uid).crash_count == 1


def test_every_acquisition_raises_the_epoch(store: Store) -> None:
    uid, epochs = a_session(store).uid, []
    for _ in range(4):
        holder = a_holder(store, uid)
        epochs.append(holder.epoch)
        store.write_now(session.release(holder))
    assert epochs == [1, 2, 3, 4]
    assert session_of(store, uid).crash_count == 0


def test_renewing_prolongs_the_lease_and_leaves_no_event(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store)
    before = session_of(store, holder.uid)
    clock.advance(seconds=50)
    store.write_now(lease.renew(holder, TTL))
    now = session_of(store, holder.uid)
    assert now.lease_until == clock.now() + TTL
    assert (now.cursor, now.updated_at, now.lease_epoch) == (before.cursor, before.updated_at, before.lease_epoch)


def test_a_late_holder_may_renew_if_no_other_acquired(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store)
    clock.advance(hours=1)
    store.write_now(event.append(holder, "note"))
    store.write_now(lease.renew(holder, TTL))
    with pytest.raises(LeaseHeld):
        a_holder(store, holder.uid, by="worker-2")


def test_a_lease_that_moved_on_cannot_be_renewed(store: Store, clock: ManualClock) -> None:
    first = a_holder(store)
    clock.advance(hours=1)
    second = a_holder(store, first.uid, by="worker-2")
    with pytest.raises(LeaseLost):
        store.write_now(lease.renew(first, TTL))
    store.write_now(session.release(second))
    with pytest.raises(LeaseLost):
        store.write_now(lease.renew(second, TTL))


@pytest.mark.parametrize(("nonce", "epoch"), [("guessed", 0), (None, -1), (None, 1)])
def test_the_nonce_counts_and_the_epoch_counts(store: Store, nonce: str | None, epoch: int) -> None:
    holder = a_holder(store)
    forged = Holder(holder.uid, holder.name, nonce or holder.nonce, holder.epoch + epoch, holder.cursor, holder.chain)
    moves: list[Move[Any]] = [lease.renew(forged, TTL), event.append(forged, "note"), session.release(forged)]
    for move in moves:
        with pytest.raises(LeaseLost):
            store.write_now(move)


def test_taking_over_does_not_wait_and_counts_a_crash(store: Store) -> None:
    first = a_holder(store)
    second = store.write_now(lease.take_over(first.uid, "worker-2", nonce="n-2", ttl=TTL, because="found dead"))
    assert (second.epoch, second.name) == (first.epoch + 1, "worker-2")
    assert session_of(store, first.uid).crash_count == 1
    [line] = store.read_now(event.last, first.uid, limit=1)
    assert (line.kind, line.body["from"], line.body["because"]) == ("lease.taken_over", "worker-1", "found dead")
    with pytest.raises(LeaseLost, match="worker-2 holds it now"):
        store.write_now(event.append(first, "note"))


def test_taking_over_twice_with_one_nonce_is_once(store: Store) -> None:
    first = a_holder(store)
    for _ in range(2):
        second = store.write_now(lease.take_over(first.uid, "w-2", nonce="n-2", ttl=TTL, because="dead"))
        assert second.epoch == first.epoch + 1
    assert (session_of(store, first.uid).crash_count, session_of(store, first.uid).cursor) == (1, 3)


def test_a_takeover_takes_only_from_the_named_holder(store: Store, clock: ManualClock) -> None:
    first = a_holder(store)
    clock.advance(hours=1)
    second = a_holder(store, first.uid, by="worker-2")
    late = lease.take_over(first.uid, "worker-3", nonce="n-3", ttl=TTL, because="dead", taken_from="worker-1")
    with pytest.raises(LeaseHeld, match="worker-2"):
        store.write_now(late)
    assert session_of(store, first.uid).lease_epoch == second.epoch


def test_a_session_with_an_expired_lease_becomes_ready_once(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store)
    assert not store.write_now(lease.expire(holder.uid, "housekeeping"))
    clock.advance(seconds=61)
    assert store.write_now(lease.expire(holder.uid, "housekeeping"))
    now = session_of(store, holder.uid)
    assert (now.status, now.lease_holder, now.crash_count, now.lease_epoch) == ("ready", None, 1, holder.epoch)
    assert not store.write_now(lease.expire(holder.uid, "housekeeping"))
    with pytest.raises(LeaseLost, match="it is ready now"):
        store.write_now(event.append(holder, "note"))


def test_a_session_that_waits_or_has_ended_cannot_be_taken(store: Store) -> None:
    waiting, ended = a_holder(store), a_holder(store)
    store.write_now(wait.open_(waiting, "w", WaitKind.INPUT))
    store.write_now(wait.park(waiting, ["w"]))
    store.write_now(session.finish(ended, Status.FAILED, error={"why": "no"}))
    for uid in (waiting.uid, ended.uid):
        with pytest.raises(IllegalMove):
            a_holder(store, uid)
    with pytest.raises(NotFound):
        a_holder(store, "missing")


def test_crashes_in_a_row_are_counted_until_something_ends_well(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store)
    uid = holder.uid
    for crashes in range(1, 4):
        clock.advance(hours=1)
        holder = a_holder(store, uid)
        assert session_of(store, uid).crash_count == crashes
    store.write_now(wait.open_(holder, "w", WaitKind.INPUT))
    store.write_now(wait.park(holder, ["w"]))
    assert session_of(store, uid).crash_count == 0


def test_progress_of_its_holder_ends_the_count_of_crashes(store: Store, clock: ManualClock) -> None:
    """A message that came meanwhile is no progress, and neither is dispatching again what was dispatched before."""
    holder = a_holder(store)
    uid, counts = holder.uid, []
    for kind in ("note", "effect.dispatched", "inbox", "effect.recovered", "note"):
        if kind == "inbox":
            store.write_now(inbox.receive(uid, "ada", "m", "hello"))
        else:
            store.write_now(event.append(holder, kind))
        clock.advance(hours=1)
        holder = a_holder(store, uid)
        counts.append(session_of(store, uid).crash_count)
    assert counts == [1, 2, 3, 4, 1]


def test_a_parent_is_not_blamed_while_its_child_runs(store: Store, clock: ManualClock) -> None:
    parent = a_holder(store)
    child = a_holder(store, a_session(store, parent_uid=parent.uid, parent_wait="w").uid)
    clock.advance(hours=1)
    for uid, crashes in ((parent.uid, 0), (child.uid, 1)):
        a_holder(store, uid)
        assert session_of(store, uid).crash_count == crashes


@pytest.mark.databases("sqlite", "files", "postgres")
def test_a_restore_starts_with_unused_epochs(target: str) -> None:
    with open_store(target) as before:
        old = a_holder(before)
        before.write_now(session.release(old))
        before.write_now(meta.put("restore_epoch", "1"))
    with open_store(target) as after:
        new = a_holder(after, old.uid)
        assert new.epoch == (1 << RESTORE_SHIFT) + 1
        named = after.write_now(lease.acquire_named("r", holder="w", nonce="n", ttl=TTL))
        assert named.epoch == (1 << RESTORE_SHIFT) + 1
