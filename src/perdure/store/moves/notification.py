"""Notifications: an outbox that is written with what it is about, and emptied by processes that can send.

    notify     in the transaction of the event: one row for each channel that is told about this topic
    claim      a sender takes a row for a time. If it dies, another one sends the row again, with the same id
    settle     the row is sent, waits for its next attempt, or has failed after the last one

So a notification is sent at least once, and a receiver drops what comes again by its id. A sender that was too slow
settles nothing: its claim was taken over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from perdure.clock import SECOND
from perdure.domain.notification import (
    MOST_ATTEMPTS,
    ChannelKind,
    Notification,
    NotificationChannel,
    NotificationState,
    Topic,
    check_topics,
    describe,
    notification_id,
    pause_after,
    topic_of_wait,
)
from perdure.domain.wait import Wait
from perdure.errors import NotFound
from perdure.ids import check_name, check_text, encode
from perdure.store.move import Log, StoreTransaction, plain_move
from perdure.store.topics import NOTIFICATIONS

MANY = 10_000
CLAIM = 120 * SECOND  # longer than any attempt to send
LONG = 600 * SECOND  # after which a notification that no process tried to send is a finding
LONGEST_ERROR = 500


class ChannelCounts(msgspec.Struct, frozen=True):
    """What was not sent on a channel."""

    channel: str
    waiting: int  # after an attempt, or for long
    failed: int
    error: str | None


def about_wait(log: Log, asked: Wait) -> None:
    """Tell people about a wait that was opened, if it is for them."""
    topic = topic_of_wait(asked.kind, asked.ref, asked.detail)
    if topic is None:
        return
    said = asked.detail if isinstance(asked.detail, dict) else {}
    about = {name: said[name] for name in ("gate", "tool", "question", "why") if isinstance(said.get(name), str)}
    about |= {"wait": asked.id}
    about |= {"effect": asked.ref} if topic in (Topic.APPROVAL, Topic.DOUBT) and asked.ref else {}
    notify(log, topic, about)


def about_failure(log: Log, error: Any) -> None:
    """Tell people that a session has failed."""
    said = error if isinstance(error, Mapping) else {}
    notify(log, Topic.FAILURE, {"code": said.get("code"), "why": said.get("message") or said.get("type")})


def notify(log: Log, topic: Topic, about: Mapping[str, Any]) -> None:
    """Write a notification about the newest event of a session, for each channel that is told about this topic."""
    told = [one.name for one in channels(log.tx) if topic in one.topics]
    if not told:
        return
    id = notification_id(log.uid, log.cursor, topic)
    known = {name: value for name, value in about.items() if value is not None}
    body = {
        "id": id, "topic": topic, "text": describe(topic, log.head.id, known), "at": log.tx.now,
        "session": {"id": log.head.id, "uid": log.uid, "event": log.cursor}, "about": known,
    }  # fmt: skip
    _insert(log.tx, id, told, log.uid, topic, body)


def _insert(
    tx: StoreTransaction, id: str, told: Collection[str], uid: str | None, topic: Topic, body: Mapping[str, Any]
) -> None:
    for channel in told:
        tx.run(
            "notification.insert", id=id, channel=channel, session_uid=uid, topic=topic, body=encode(body), now=tx.now
        )
    tx.wake_service(NOTIFICATIONS)


@plain_move
def write_test(tx: StoreTransaction, channel: str, id: str) -> Notification:
    """Write a notification that only tests a channel."""
    if channel not in {one.name for one in channels(tx)}:
        raise NotFound(f"There is no channel {channel!r:.80}.", hint="`perdure notifications channels` lists them.")
    body = {"id": id, "topic": Topic.TEST, "text": describe(Topic.TEST, "", {}), "at": tx.now, "about": {}}
    _insert(tx, id, [channel], None, Topic.TEST, body)
    return get(tx, id, channel)


@plain_move
def put_channel(tx: StoreTransaction, name: str, kind: ChannelKind, topics: Collection[str], *, by: str) -> bool:
    """Register a channel that a process can send to; False if it is known as it is."""
    check_name("The channel", name)
    wanted = check_topics(topics)
    found = {one.name: one for one in channels(tx)}.get(name)
    if found is not None and (found.kind, found.topics) == (kind, wanted):
        return False
    tx.run(
        "notification.put_channel", name=name, kind=kind, topics=encode(wanted), by=check_text("Who", by), now=tx.now
    )
    return True


@plain_move
def remove_channel(tx: StoreTransaction, name: str, *, by: str) -> bool:
    """Forget a channel; what still waits for it is not sent."""
    tx.run("notification.abandon", channel=name, error=f"{check_text('Who', by)} removed the channel."[:LONGEST_ERROR])
    return tx.run("notification.remove_channel", name=name) == 1


@plain_move
def claim(tx: StoreTransaction, id: str, channel: str, *, seen: int, by: str) -> Notification | None:
    """Take a notification that is due, to send it; None if another process took it. `by` names this one claim."""
    tx.run("notification.claim", id=id, channel=channel, seen=seen, by=by, until=tx.now + CLAIM, now=tx.now)
    found = get(tx, id, channel)
    return found if found.claimed_by == by else None  # also if this move was committed before and runs again


@plain_move
def settle(tx: StoreTransaction, id: str, channel: str, *, by: str, attempts: int, error: str | None) -> None:
    """Record how an attempt to send has ended; `error` is None if it was sent."""
    last = attempts >= MOST_ATTEMPTS
    state = NotificationState.SENT if error is None else NotificationState.FAILED if last else NotificationState.PENDING
    tx.run(
        "notification.settle",
        id=id, channel=channel, by=by, state=state, next_at=tx.now + pause_after(attempts),
        sent_at=tx.now if error is None else None, error=None if error is None else error[:LONGEST_ERROR],
    )  # fmt: skip
    if state is NotificationState.PENDING:
        tx.wake_service(NOTIFICATIONS)


@plain_move
def retry(tx: StoreTransaction, id: str | None = None, *, channel: str | None = None) -> int:
    """Send what has failed again: one notification, those of a channel, or all. Returns how many."""
    if id is not None and not listing(tx, id=id, channel=channel, limit=1):
        raise NotFound(f"There is no notification {id!r:.80}.", hint="`perdure notifications` lists them.")
    failed = listing(tx, state=NotificationState.FAILED, id=id, channel=channel)
    tx.wake_service(NOTIFICATIONS)
    return sum(tx.run("notification.retry", id=one.id, channel=one.channel, now=tx.now) for one in failed)


@plain_move
def forget(tx: StoreTransaction, before: int) -> int:
    """Forget what was sent, or has failed, from before a time."""
    return tx.run("notification.forget", before=before)


def has_older(tx: StoreTransaction, before: int) -> bool:
    """Whether there is something to forget."""
    return tx.one("notification.older", before=before, limit=1) is not None


def channels(tx: StoreTransaction) -> list[NotificationChannel]:
    return [NotificationChannel.from_row(row) for row in tx.all("notification.channels", limit=MANY)]


def get(tx: StoreTransaction, id: str, channel: str) -> Notification:
    row = tx.one("notification.get", id=id, channel=channel)
    if row is None:
        raise NotFound(f"There is no notification {id} for the channel {channel}.")
    return Notification.from_row(row)


def first_due(tx: StoreTransaction, channel: str, *, limit: int) -> list[Notification]:
    """The notifications of a channel that are not sent, by the time of their next attempt."""
    return [Notification.from_row(row) for row in tx.all("notification.due", channel=channel, limit=limit)]


def listing(
    tx: StoreTransaction, *, state: str | None = None, channel: str | None = None, id: str | None = None,
    limit: int = MANY,
) -> list[Notification]:  # fmt: skip
    """Notifications, filtered, the newest first."""
    rows = tx.all("notification.list", state=state, channel=channel, id=id, limit=limit)
    return [Notification.from_row(row) for row in rows]


def counts(tx: StoreTransaction) -> list[ChannelCounts]:
    """What was not sent, by channel."""
    return [ChannelCounts(*row) for row in tx.all("notification.counts", before=tx.now - LONG, limit=MANY)]
