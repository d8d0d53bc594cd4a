"""Waits: asked for, answered once, and never missed between asking and parking."""

import asyncio

import pytest

from perdure.clock import SECOND
from perdure.domain.lease import Holder
from perdure.domain.wait import WaitKind
from perdure.errors import ConfigError, Conflict, IllegalMove, LeaseLost, NotFound
from perdure.store.moves import event, lease, wait
from perdure.store.store import Store
from perdure.store.transfer import session_export
from perdure.testing import ManualClock
from tests.store.support.sessions import a_holder, session_of


def open_wait(store: Store, id: str = "w", kind: WaitKind = WaitKind.INPUT, **more: int) -> Holder:
    holder = a_holder(store)
    store.write_now(wait.open_(holder, id, kind, detail={"question": "merge?"}, **more))  # type: ignore[arg-type]
    return holder


def test_asking_writes_the_wait_and_the_session_still_runs(store: Store, clock: ManualClock) -> None:
    holder = open_wait(store)
    [asked] = store.read_now(wait.open_of_session, holder.uid)
    assert (asked.id, asked.kind, asked.detail, asked.since) == ("w", "input", {"question": "merge?"}, clock.now())
    assert (asked.answer, asked.resolved_by, asked.resolved_at) == (None, None, None)
    assert session_of(store, holder.uid).status == "running"


def test_asking_again_is_the_same_wait_resolved_or_not(store: Store) -> None:
    holder = open_wait(store)
    asked = store.read_now(wait.get, holder.uid, "w")
    assert store.write_now(wait.open_(holder, "w", WaitKind.INPUT)) == asked
    answered = store.write_now(wait.resolve(holder.uid, "ada", "w", "yes"))
    assert store.write_now(wait.open_(holder, "w", WaitKind.INPUT)) == answered
    kinds = [line.kind for line in store.read_now(event.after, holder.uid)]
    assert kinds.count("wait.opened") == 1


@pytest.mark.parametrize(("kind", "ref"), [(WaitKind.APPROVAL, None), (WaitKind.INPUT, "other")])
def test_asking_for_something_else_under_the_same_id_is_a_conflict(
    store: Store, kind: WaitKind, ref: str | None
) -> None:
    holder = open_wait(store)
    with pytest.raises(Conflict):
        store.write_now(wait.open_(holder, "w", kind, ref=ref))


def test_a_timer_needs_a_due_time(store: Store) -> None:
    with pytest.raises(ConfigError):
        open_wait(store, kind=WaitKind.TIMER)


def test_parking_before_the_answer_waits_and_costs_no_lease(store: Store, clock: ManualClock) -> None:
    holder = open_wait(store)
    assert store.write_now(wait.park(holder, ["w"])) == []
    now = session_of(store, holder.uid)
    assert (now.status, now.waiting_since, now.lease_holder) == ("waiting", clock.now(), None)
    clock.advance(hours=8)
    answered = store.write_now(wait.resolve(holder.uid, "ada", "w", {"merge": True}))
    assert (answered.answer, answered.resolved_by, answered.resolved_at) == ({"merge": True}, "ada", clock.now())
    now = session_of(store, holder.uid)
    assert (now.status, now.waiting_since) == ("ready", None)


def test_parking_after_the_answer_returns_it_and_keeps_running(store: Store) -> None:
    holder = open_wait(store)
    answered = store.write_now(wait.resolve(holder.uid, "ada", "w", "yes"))
    assert session_of(store, holder.uid).status == "running"
    assert store.write_now(wait.park(holder, ["w"])) == [answered]
    now = session_of(store, holder.uid)
    assert (now.status, now.lease_epoch, now.lease_holder) == ("running", holder.epoch, holder.name)


@pytest.mark.databases("sqlite", "postgres")
async def test_an_answer_that_races_with_parking_is_never_missed(store: Store) -> None:
    for _ in range(20):
        holder = open_wait(store)
        park, resolve = wait.park(holder, ["w"]), wait.resolve(holder.uid, "ada", "w", "yes")
        told, answered = await asyncio.gather(store.write(park), store.write(resolve))
        status = session_of(store, holder.uid).status
        assert (status, told) in (("running", [answered]), ("ready", []))


def test_one_answer_of_several_is_enough_to_continue(store: Store) -> None:
    holder = open_wait(store, "a")
    store.write_now(wait.open_(holder, "b", WaitKind.APPROVAL))
    store.write_now(wait.resolve(holder.uid, "ada", "b", "yes"))
    assert [one.id for one in store.write_now(wait.park(holder, ["a", "b"]))] == ["b"]
    assert store.write_now(wait.park(holder, ["a"])) == []
    assert [one.id for one in store.read_now(wait.open_of_session, holder.uid)] == ["a"]


def test_parking_needs_something_to_wait_for(store: Store) -> None:
    holder = open_wait(store)
    with pytest.raises(IllegalMove):
        store.write_now(wait.park(holder, []))
    with pytest.raises(NotFound):
        store.write_now(wait.park(holder, ["w", "never asked"]))
    assert session_of(store, holder.uid).status == "running"


def test_parking_releases_the_lease(store: Store) -> None:
    holder = open_wait(store)
    store.write_now(wait.park(holder, ["w"]))
    with pytest.raises(LeaseLost):
        store.write_now(wait.park(holder, ["w"]))


def test_the_same_answer_again_is_the_same_and_another_is_a_conflict(store: Store, clock: ManualClock) -> None:
    holder = open_wait(store)
    first = store.write_now(wait.resolve(holder.uid, "ada", "w", {"n": 1}))
    clock.advance(seconds=5)
    assert store.write_now(wait.resolve(holder.uid, "ada", "w", {"n": 1})) == first
    for by, answer in (("ada", {"n": 2}), ("ada", {"n": True}), ("ada", None), ("bob", {"n": 1})):
        with pytest.raises(Conflict, match="ada"):
            store.write_now(wait.resolve(holder.uid, by, "w", answer))
    assert store.read_now(wait.get, holder.uid, "w") == first


def test_an_answer_to_nothing_is_not_found(store: Store) -> None:
    holder = a_holder(store)
    with pytest.raises(NotFound):
        store.write_now(wait.resolve(holder.uid, "ada", "w", "yes"))


def due_now(store: Store, clock: ManualClock) -> list[wait.Due]:
    return [one for one in store.read_now(wait.first_due) if one.due_at <= clock.now()]


def test_a_timer_fires_when_it_is_due_and_not_before(store: Store, clock: ManualClock) -> None:
    holder = open_wait(store, kind=WaitKind.TIMER, due_at=clock.now() + 10 * SECOND)
    store.write_now(wait.park(holder, ["w"]))
    assert store.read_now(wait.next_due, clock.now()) == clock.now() + 10 * SECOND
    clock.advance(seconds=9)
    assert due_now(store, clock) == []
    assert store.write_now(wait.fire(holder.uid, "timer", "w")).resolved_at is None
    clock.advance(seconds=1)
    assert [one.id for one in due_now(store, clock)] == ["w"]
    fired = store.write_now(wait.fire(holder.uid, "timer", "w"))
    assert (fired.resolved_at, fired.resolved_by, fired.answer) == (clock.now(), "timer", None)
    assert session_of(store, holder.uid).status == "ready"
    assert (due_now(store, clock), store.read_now(wait.next_due, clock.now())) == ([], None)


def test_what_a_sealed_session_waits_for_is_left_out(store: Store, clock: ManualClock) -> None:
    holder = open_wait(store, kind=WaitKind.TIMER, due_at=clock.now())
    store.write_now(wait.open_(holder, "later", WaitKind.TIMER, due_at=clock.now() + SECOND))
    store.write_now(wait.open_(holder, "lease", WaitKind.LEASE, ref="main"))
    store.write_now(wait.open_(holder, "effect", WaitKind.EFFECT, ref="e-1"))
    store.write_now(wait.park(holder, ["w"]))

    def found() -> list[int]:
        soon = store.read_now(wait.next_due, clock.now()) is not None
        told = store.read_now(wait.for_ref, "e-1")
        return [len(due_now(store, clock)), len(store.read_now(lease.waits_for_free_resources)), len(told), soon]

    assert found() == [1, 1, 1, True]
    store.write_now(session_export.seal(holder.uid, "ada", store="here"))
    assert found() == [0, 0, 0, False]


def test_a_timer_that_was_resolved_meanwhile_stays_as_it_is(store: Store, clock: ManualClock) -> None:
    holder = open_wait(store, kind=WaitKind.TIMER, due_at=clock.now())
    answered = store.write_now(wait.resolve(holder.uid, "ada", "w", "enough"))
    assert store.write_now(wait.fire(holder.uid, "timer", "w")) == answered


def test_a_timer_stays_open_after_the_clock_was_set_back(store: Store, clock: ManualClock) -> None:
    holder = open_wait(store, kind=WaitKind.TIMER, due_at=clock.now())
    store.write_now(wait.park(holder, ["w"]))
    (due,) = due_now(store, clock)
    clock.advance(seconds=-5)
    cursor = session_of(store, holder.uid).cursor
    assert store.write_now(wait.fire(holder.uid, "timer", due.id)).resolved_at is None
    assert (session_of(store, holder.uid).status, session_of(store, holder.uid).cursor) == ("waiting", cursor)
    clock.advance(seconds=5)
    assert store.write_now(wait.fire(holder.uid, "timer", due.id)).resolved_at == clock.now()


def test_a_wait_without_a_time_never_fires(store: Store, clock: ManualClock) -> None:
    holder = open_wait(store)
    clock.advance(days=1000)
    with pytest.raises(IllegalMove):
        store.write_now(wait.fire(holder.uid, "timer", "w"))


def test_open_waits_are_listed_by_kind_the_longest_first(store: Store, clock: ManualClock) -> None:
    first = open_wait(store, "a", WaitKind.APPROVAL)
    clock.advance(seconds=1)
    second = open_wait(store, "b")
    clock.advance(seconds=1)
    store.write_now(wait.open_(first, "c", WaitKind.INPUT))
    store.write_now(wait.resolve(second.uid, "ada", "b"))
    assert [one.id for one in store.read_now(wait.open_waits)] == ["a", "c"]
    assert [one.id for one in store.read_now(wait.open_waits, kind="input")] == ["c"]
    assert [one.id for one in store.read_now(wait.open_waits, limit=1)] == ["a"]
    assert [one.id for one in store.read_now(wait.open_of_kind, first.uid, WaitKind.INPUT)] == ["c"]
    assert [one.id for one in store.read_now(wait.of_session, second.uid)] == ["b"]


def test_a_wait_is_found_by_its_id_if_it_is_unique(store: Store) -> None:
    holder = open_wait(store, "w-1")
    assert store.read_now(wait.find, "w-1").session_uid == holder.uid
    open_wait(store, "w-1")
    with pytest.raises(Conflict):
        store.read_now(wait.find, "w-1")
    with pytest.raises(NotFound):
        store.read_now(wait.find, "w-2")


def test_waits_for_one_reference_are_found_for_any_session(store: Store) -> None:
    holders = [a_holder(store) for _ in range(2)]
    for holder in holders:
        store.write_now(wait.open_(holder, "w", WaitKind.CHILD, ref="child-1"))
    store.write_now(wait.open_(holders[0], "v", WaitKind.CHILD, ref="child-2"))
    assert {one.session_uid for one in store.read_now(wait.for_ref, "child-1")} == {one.uid for one in holders}
    store.write_now(wait.resolve(holders[0].uid, "child-1", "w"))
    assert [one.session_uid for one in store.read_now(wait.for_ref, "child-1")] == [holders[1].uid]
