"""The outbox of notifications: written with what it is about, claimed by one sender, never lost."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.clock import SECOND
from perdure.domain.lease import Holder
from perdure.domain.notification import MOST_ATTEMPTS, ChannelKind, Notification
from perdure.domain.session import Status
from perdure.domain.wait import WaitKind
from perdure.errors import ConfigError, NotFound
from perdure.store.move import Move, StoreTransaction, hold
from perdure.store.moves import event, notification, session, session_removal, wait
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import a_holder, session_of

CALL = {"gate": "merge", "tool": "push", "intent": {"remote": "s3cr3t"}}


def channel(store: Store, name: str = "ops", *topics: str) -> None:
    store.write_now(notification.put_channel(name, ChannelKind.WEBHOOK, topics, by="ada"))


def told(store: Store, **only: Any) -> list[Notification]:
    return store.read_now(notification.listing, **only)


def asks(store: Store, holder: Holder, id: str = "a-1", kind: WaitKind = WaitKind.APPROVAL, detail: Any = None) -> None:
    store.write_now(wait.open_(holder, id, kind, ref="e-1", detail=detail or CALL))


def claimed(store: Store, clock: ManualClock, by: str = "w-1") -> Notification | None:
    one = store.read_now(notification.first_due, "ops", limit=1)[0]
    return store.write_now(notification.claim(one.id, "ops", seen=one.next_at, by=by))


def test_a_notification_is_written_for_each_channel_of_the_topic(store: Store) -> None:
    for name, *topics in (("ops",), ("mail", "approval", "doubt"), ("budgets", "budget")):
        channel(store, name, *topics)
    holder = a_holder(store)
    asks(store, holder)
    one, two = told(store)
    assert (one.channel, two.channel, one.id) == ("mail", "ops", two.id)
    assert (one.topic, one.state, one.attempts, one.session_uid) == ("approval", "pending", 0, holder.uid)
    last = store.read_now(event.last, holder.uid, limit=1)[0].number
    assert one.body["session"] == {"id": session_of(store, holder.uid).id, "uid": holder.uid, "event": last}
    assert one.body["about"] == {"gate": "merge", "tool": "push", "wait": "a-1", "effect": "e-1"}
    assert "s3cr3t" not in str(one)


def test_nothing_is_written_without_channels(store: Store) -> None:
    asks(store, a_holder(store))
    assert told(store) == []


@pytest.mark.parametrize(
    ("kind", "detail", "topic"),
    [
        (WaitKind.INPUT, {"question": "Merge\u202e now?"}, "question"),
        (WaitKind.DOUBT, CALL, "doubt"),
        (WaitKind.QUARANTINE, {"crashes": 3}, "quarantine"),
        (WaitKind.EFFECT, None, None),
        (WaitKind.INPUT, {"receive": "m"}, None),
    ],
)
def test_the_topic_follows_from_the_wait(store: Store, kind: WaitKind, detail: Any, topic: str | None) -> None:
    channel(store)
    asks(store, a_holder(store), "w-1", kind, detail)
    found = told(store)
    assert [one.topic for one in found] == ([topic] if topic else [])
    assert all(one.body["text"].isprintable() for one in found)


@pytest.mark.parametrize(
    ("detail", "topic"),
    [
        (None, None),
        ({"about": "rewound", "why": "x"}, None),
        ({"about": "model", "why": "refused"}, "failure"),
        ({"about": "budget", "why": "10 turns"}, "budget"),
    ],
)
def test_an_agent_that_stops_tells_why(store: Store, detail: Any, topic: str | None) -> None:
    channel(store)
    store.write_now(wait.open_(a_holder(store), "m-1", WaitKind.INPUT, detail=detail))
    assert [one.topic for one in told(store)] == ([topic] if topic else [])


def test_a_failed_session_is_told_and_a_failed_child_is_not(store: Store) -> None:
    channel(store)
    parent = a_holder(store)
    for uid in (None, _child(store, parent.uid)):
        error = {"type": "ModelError", "code": "model-error", "message": "no key"}
        store.write_now(session.finish(a_holder(store, uid), Status.FAILED, error=error))
    (one,) = told(store)
    assert (one.topic, one.body["about"]) == ("failure", {"code": "model-error", "why": "no key"})


def _child(store: Store, parent: str) -> str:
    made = session.NewSession(id="child", program="p", arguments={}, parent_uid=parent)
    return store.write_now(session.create(made, by="ada")).uid


def test_a_notification_is_written_with_its_event_or_not_at_all(store: Store) -> None:
    channel(store)
    holder = a_holder(store)

    def breaks_off(tx: StoreTransaction) -> None:
        wait.open_.on(hold(tx, holder), "a-1", WaitKind.APPROVAL, ref="e-1", detail=CALL)
        raise ConfigError("broken off")

    with pytest.raises(ConfigError):
        store.write_now(Move("test", "holder", breaks_off))
    assert told(store) == []


def test_a_notification_is_claimed_by_one_sender_for_a_time(store: Store, clock: ManualClock) -> None:
    channel(store)
    asks(store, a_holder(store))
    due = store.read_now(notification.first_due, "ops", limit=1)[0]
    mine = store.write_now(notification.claim(due.id, "ops", seen=due.next_at, by="w-1"))
    assert mine is not None
    assert (mine.attempts, mine.claimed_by) == (1, "w-1")
    assert store.write_now(notification.claim(due.id, "ops", seen=due.next_at, by="w-2")) is None
    assert claimed(store, clock, "w-2") is None  # not due before the claim ends
    clock.advance(seconds=notification.CLAIM // SECOND)
    again = claimed(store, clock, "w-2")
    assert again is not None
    assert (again.id, again.attempts) == (mine.id, 2)
    store.write_now(notification.settle(mine.id, "ops", by="w-1", attempts=1, error="late"))
    assert told(store)[0].claimed_by == "w-2"
    store.write_now(notification.settle(mine.id, "ops", by="w-2", attempts=2, error=None))
    assert [(one.state, one.sent_at) for one in told(store)] == [("sent", clock.now())]


def test_attempts_are_made_later_and_later_until_the_last_one(store: Store, clock: ManualClock) -> None:
    channel(store)
    asks(store, a_holder(store))
    pauses = []
    for _ in range(MOST_ATTEMPTS):
        taken = claimed(store, clock)
        assert taken is not None
        store.write_now(notification.settle(taken.id, "ops", by="w-1", attempts=taken.attempts, error="refused"))
        pauses.append((told(store)[0].next_at - clock.now()) // SECOND)
        clock.advance(seconds=pauses[-1])
    assert pauses[:4] == [10, 20, 40, 80]
    assert max(pauses) == 3600
    assert [(one.state, one.error) for one in told(store, state="failed")] == [("failed", "refused")]
    assert [(one.failed, one.error) for one in store.read_now(notification.counts)] == [(1, "refused")]
    assert store.write_now(notification.retry()) == 1
    assert claimed(store, clock) is not None


def test_a_removed_channel_gets_nothing(store: Store, clock: ManualClock) -> None:
    channel(store)
    asks(store, a_holder(store))
    assert store.write_now(notification.remove_channel("ops", by="ada"))
    asks(store, a_holder(store))
    assert [(one.state, one.error) for one in told(store)] == [("failed", "ada removed the channel.")]
    with pytest.raises(NotFound):
        store.write_now(notification.write_test("ops", "n-1"))


def test_a_removed_session_leaves_no_notification(store: Store) -> None:
    channel(store)
    holder = a_holder(store)
    store.write_now(session.finish(holder, Status.FAILED, error={"message": "no"}))
    assert len(told(store)) == 1
    store.write_now(session_removal.remove(holder.uid, "ada", because="done"))
    assert told(store) == []


def test_what_waits_is_not_forgotten(store: Store, clock: ManualClock) -> None:
    channel(store)
    asks(store, a_holder(store))
    clock.advance(hours=1000)
    assert store.write_now(notification.forget(clock.now())) == 0
    taken = claimed(store, clock)
    assert taken is not None
    store.write_now(notification.settle(taken.id, "ops", by="w-1", attempts=1, error=None))
    assert store.write_now(notification.forget(clock.now())) == 1


def test_an_unknown_topic_is_refused(store: Store) -> None:
    with pytest.raises(ConfigError, match="not a topic"):
        channel(store, "ops", "weather")
