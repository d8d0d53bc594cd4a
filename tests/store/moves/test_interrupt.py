"""A request to interrupt stops one turn, once: it is removed with what records the stop."""

import pytest

from perdure.domain.lease import Holder
from perdure.domain.session import Status
from perdure.domain.wait import WaitKind
from perdure.errors import IllegalMove
from perdure.store.moves import inbox, interrupt, lease, message, session, session_end, wait
from perdure.store.store import Store
from tests.store.support.sessions import TTL, a_holder, session_of

NOTE = {"role": "note", "about": "interrupted", "content": "ada stopped the work here."}


def is_requested(store: Store, holder: Holder) -> bool:
    return store.read_now(interrupt.pending, holder.uid) is not None


def parked(store: Store, kind: WaitKind, **more: object) -> Holder:
    holder = a_holder(store)
    store.write_now(wait.open_(holder, "w", kind, **more))  # type: ignore[arg-type]
    store.write_now(session_end.park(holder, ["w"]))
    return holder


def test_the_holder_learns_of_a_request_with_its_next_move(store: Store) -> None:
    holder = a_holder(store)
    assert store.write_now(interrupt.request(holder.uid, "ada")) is True
    assert store.read_now(interrupt.pending, holder.uid) == "ada"
    store.write_now(wait.open_(holder, "w", WaitKind.INPUT))
    assert holder.interrupt_requested


def test_a_second_request_changes_nothing_while_the_first_is_pending(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(interrupt.request(holder.uid, "ada"))
    cursor = session_of(store, holder.uid).cursor
    assert store.write_now(interrupt.request(holder.uid, "grace")) is True
    assert (session_of(store, holder.uid).cursor, store.read_now(interrupt.pending, holder.uid)) == (cursor, "ada")


@pytest.mark.parametrize("kind", [WaitKind.INPUT, WaitKind.PAUSED, WaitKind.APPROVAL, WaitKind.DOUBT])
def test_a_session_that_waits_for_a_person_is_not_interrupted(store: Store, kind: WaitKind) -> None:
    holder = parked(store, kind)
    assert store.write_now(interrupt.request(holder.uid, "ada")) is False
    assert not is_requested(store, holder)


def test_a_session_that_waits_for_a_timer_becomes_ready_to_stop(store: Store) -> None:
    holder = parked(store, WaitKind.TIMER, due_at=2**60)
    assert store.write_now(interrupt.request(holder.uid, "ada")) is True
    assert session_of(store, holder.uid).status == "ready"
    again = store.write_now(lease.acquire(holder.uid, "w", nonce="n2", ttl=TTL))
    assert again.interrupt_requested


def test_a_session_that_has_ended_is_not_interrupted(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(session.finish(holder, Status.DONE, result=1))
    with pytest.raises(IllegalMove, match="done already"):
        store.write_now(interrupt.request(holder.uid, "ada"))


def test_parking_for_a_message_removes_the_request(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(wait.open_(holder, "w", WaitKind.INPUT))
    store.write_now(interrupt.request(holder.uid, "ada"))
    assert store.write_now(session_end.park(holder, ["w"])) is True
    assert not is_requested(store, holder)


def test_parking_for_anything_else_is_refused_until_it_has_stopped(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(wait.open_(holder, "w", WaitKind.TIMER, due_at=2**60))
    store.write_now(interrupt.request(holder.uid, "ada"))
    assert store.write_now(session_end.park(holder, ["w"])) is False
    assert is_requested(store, holder)


def test_a_program_that_has_stopped_is_paused(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(interrupt.request(holder.uid, "ada"))
    assert store.write_now(session_end.park(holder, [], pausing=True)) is True
    row = session_of(store, holder.uid)
    assert (row.interrupt_requested_at, row.status, row.pause_requested_at is None) == (None, "waiting", False)
    store.write_now(wait.resume(holder.uid, "ada"))
    assert session_of(store, holder.uid).status == "ready"


def test_the_end_of_a_turn_orders_messages_by_the_request(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(inbox.receive(holder.uid, "ada", "m-1", "before"))
    store.write_now(interrupt.request(holder.uid, "ada"))
    store.write_now(inbox.receive(holder.uid, "ada", "m-2", "after"))
    lines = store.write_now(message.end_turn(holder, [{"role": "tool"}], NOTE))
    assert [body.get("content") for _, _, body in lines] == [None, "before", NOTE["content"]]
    assert [one.id for one in store.read_now(inbox.unread, holder.uid)] == ["m-2"]
    assert not is_requested(store, holder)
    assert not holder.interrupt_requested


def test_a_turn_that_was_stopped_ends_although_the_request_was_withdrawn(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(inbox.receive(holder.uid, "ada", "m-1", "before"))
    store.write_now(interrupt.request(holder.uid, "ada"))
    store.write_now(interrupt.withdraw(holder.uid, "ada"))
    assert not is_requested(store, holder)
    lines = store.write_now(message.end_turn(holder, [{"role": "tool"}], NOTE))
    assert [body["role"] for _, _, body in lines] == ["tool", "note"]


def test_a_session_at_rest_gets_no_note(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(interrupt.request(holder.uid, "ada"))
    assert store.write_now(message.end_turn(holder, [], NOTE, at_rest=True)) == []
    assert not is_requested(store, holder)


def test_cancel_now_requests_both_in_one_move(store: Store) -> None:
    holder = a_holder(store)
    assert store.write_now(session_end.cancel(holder.uid, "ada", now=True)) is False
    row = session_of(store, holder.uid)
    assert row.cancel_requested_at == row.interrupt_requested_at is not None
