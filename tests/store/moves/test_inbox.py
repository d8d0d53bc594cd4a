"""The inbox: a message is received once under its sender's id, and promoted once, in order."""

import pytest

from perdure.domain.inbox import InboxMessage, InboxMode
from perdure.domain.session import Status
from perdure.domain.wait import WaitKind
from perdure.errors import Conflict
from perdure.store.moves import event, inbox, session, wait
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import a_holder, a_session, everything, session_of


def test_a_message_is_received_without_a_lease(store: Store, clock: ManualClock) -> None:
    uid = a_session(store).uid
    receipt = store.write_now(inbox.receive(uid, "ada", "m-1", {"text": "also the docs"}, InboxMode.STEER))
    assert (receipt.sequence, receipt.mode, receipt.sender) == (1, "steer", "ada")
    assert (receipt.body, receipt.received_at, receipt.promoted_as) == ({"text": "also the docs"}, clock.now(), None)
    assert store.read_now(inbox.get, uid, "m-1") == receipt
    assert store.read_now(inbox.get, uid, "m-2") is None


def test_an_exact_retry_gets_the_same_receipt_whenever_it_comes(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store)

    def retry() -> InboxMessage:
        return store.write_now(inbox.receive(holder.uid, "ada", "m-1", {"a": 1, "b": 2}))

    first = retry()
    clock.advance(seconds=5)
    assert retry() == first
    assert store.write_now(inbox.receive(holder.uid, "ada", "m-1", {"b": 2, "a": 1})) == first
    [promoted] = store.write_now(inbox.promote(holder))
    assert retry() == promoted
    store.write_now(session.finish(holder, Status.DONE))
    before = everything(store)
    assert retry() == promoted
    assert everything(store) == before


def test_other_content_under_the_same_id_is_refused(store: Store) -> None:
    uid = a_session(store).uid
    first = store.write_now(inbox.receive(uid, "ada", "m-1", {"n": 1}))
    for by, body, mode in (
        ("ada", {"n": 2}, InboxMode.QUEUE),
        ("ada", {"n": True}, InboxMode.QUEUE),
        ("bob", {"n": 1}, InboxMode.QUEUE),
        ("ada", {"n": 1}, InboxMode.STEER),
    ):
        with pytest.raises(Conflict, match="m-1"):
            store.write_now(inbox.receive(uid, by, "m-1", body, mode))
    assert store.read_now(inbox.unread, uid) == [first]


def test_the_same_id_in_another_session_is_another_message(store: Store) -> None:
    one, two = a_session(store).uid, a_session(store).uid
    store.write_now(inbox.receive(one, "ada", "m-1", "hello"))
    assert store.write_now(inbox.receive(two, "bob", "m-1", "goodbye")).sequence == 1


def test_messages_are_promoted_once_in_the_order_in_which_they_came(store: Store) -> None:
    holder = a_holder(store)
    for id in ("z", "a", "m"):
        store.write_now(inbox.receive(holder.uid, "ada", id, f"text of {id}"))
    promoted = store.write_now(inbox.promote(holder))
    assert [message.id for message in promoted] == ["z", "a", "m"]
    assert [message.promoted_as for message in promoted] == [6, 7, 8]
    assert store.write_now(inbox.promote(holder)) == []
    assert store.read_now(inbox.unread, holder.uid) == []
    said = [line for line in store.read_now(event.after, holder.uid) if line.kind == "message"]
    assert [(line.number, line.actor, line.body["inbox"], line.body["content"]) for line in said] == [
        (6, "ada", "z", "text of z"),
        (7, "ada", "a", "text of a"),
        (8, "ada", "m", "text of m"),
    ]


def test_promotion_can_be_for_one_mode_and_for_a_few(store: Store) -> None:
    holder = a_holder(store)
    for number, mode in enumerate([InboxMode.QUEUE, InboxMode.STEER, InboxMode.QUEUE, InboxMode.STEER]):
        store.write_now(inbox.receive(holder.uid, "ada", f"m-{number}", number, mode))
    assert [m.id for m in store.read_now(inbox.unread, holder.uid, mode=InboxMode.STEER)] == ["m-1", "m-3"]
    assert [m.id for m in store.write_now(inbox.promote(holder, mode=InboxMode.STEER))] == ["m-1", "m-3"]
    assert [m.id for m in store.write_now(inbox.promote(holder, limit=1))] == ["m-0"]
    assert [m.id for m in store.read_now(inbox.unread, holder.uid)] == ["m-2"]


def test_a_message_answers_a_session_that_waits_for_any_input(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(wait.open_(holder, "any", WaitKind.INPUT))
    store.write_now(wait.open_(holder, "exact", WaitKind.INPUT, ref="question-1"))
    store.write_now(wait.open_(holder, "approval", WaitKind.APPROVAL))
    store.write_now(wait.park(holder, ["any", "exact", "approval"]))
    store.write_now(inbox.receive(holder.uid, "ada", "m-1", "continue"))
    assert session_of(store, holder.uid).status == "ready"
    answered = store.read_now(wait.get, holder.uid, "any")
    assert (answered.answer, answered.resolved_by) == ({"message": "m-1"}, "ada")
    assert {one.id for one in store.read_now(wait.open_of_session, holder.uid)} == {"exact", "approval"}


def test_a_message_leaves_a_session_that_waits_for_something_else_waiting(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(wait.open_(holder, "approval", WaitKind.APPROVAL))
    store.write_now(wait.park(holder, ["approval"]))
    store.write_now(inbox.receive(holder.uid, "ada", "m-1", "hello"))
    assert session_of(store, holder.uid).status == "waiting"


def test_a_message_that_came_between_asking_and_parking_is_not_missed(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(wait.open_(holder, "any", WaitKind.INPUT))
    store.write_now(inbox.receive(holder.uid, "ada", "m-1", "continue"))
    assert [one.answer for one in store.write_now(wait.park(holder, ["any"]))] == [{"message": "m-1"}]
    assert session_of(store, holder.uid).status == "running"
