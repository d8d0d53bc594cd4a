"""Notifications: what people are told outside, what could not be sent, and the channels.

The settings of a channel, with its secrets, are those of the processes that send to it; nothing of them is here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.domain.caller import Verb
from perdure.domain.literals import NotificationWord
from perdure.domain.notification import Notification, NotificationChannel
from perdure.errors import NotFound
from perdure.server.operation import Body, Context, Ids, Nothing, Operation, Touch
from perdure.server.page import Page, PageQuery, page_of
from perdure.store.moves import notification


class NotificationQuery(PageQuery, frozen=True):
    """Which notifications."""

    state: NotificationWord | None = None
    channel: str | None = None


class RetryNotifications(Body, frozen=True):
    """One notification, those of a channel, or all that were given up."""

    id: str | None = None
    channel: str | None = None


class RetriedNotifications(msgspec.Struct, frozen=True):
    """How many will be sent again."""

    retried: int


class RemovedChannel(msgspec.Struct, frozen=True):
    """Whether there was a channel of this name."""

    channel: str
    removed: bool


async def listing(context: Context) -> Page[Notification]:
    query: NotificationQuery = context.query
    found = [one async for one in context.runtime.notifications(state=query.state, channel=query.channel)]
    return page_of(found, query, lambda one: (-one.created_at, one.id, one.channel))


async def channels(context: Context) -> Page[NotificationChannel]:
    found = [one async for one in context.runtime.notification_channels()]
    return page_of(found, context.query, lambda one: (one.name,))


async def retry(context: Context) -> RetriedNotifications:
    body: RetryNotifications = context.body
    return RetriedNotifications(await context.runtime.retry_notifications(body.id, channel=body.channel))


async def retried(_context: Context, ids: Ids) -> RetriedNotifications:
    return RetriedNotifications(int(ids["retried"]))


async def test(context: Context) -> Notification:
    return await context.runtime.test_notification(context.params["name"])


async def tested(context: Context, ids: Ids) -> Notification:
    return await context.store.read(notification.get, ids["notification"], context.params["name"])


async def remove(context: Context) -> RemovedChannel:
    name = context.params["name"]
    if not await context.runtime.remove_notification_channel(name, by=context.by):
        raise NotFound(f"There is no channel {name!r:.80}.", hint="The list of channels has their names.")
    return RemovedChannel(name, removed=True)


async def removed(context: Context, _: Ids) -> RemovedChannel:
    return RemovedChannel(context.params["name"], removed=True)


READ: dict[str, Any] = {"method": "GET", "verb": Verb.READ_NOTIFICATION, "touches": Touch.STORE}
CHANGE: dict[str, Any] = {"method": "POST", "verb": Verb.CHANGE_NOTIFICATION, "touches": Touch.STORE}
CHANNEL = "/v1/notification-channels/{name}"

OPERATIONS = (
    Operation(
        name="notifications.list", path="/v1/notifications", **READ, handler=listing, answer=Page[Notification],
        query=NotificationQuery, summary="Notifications, the newest first.",
    ),
    Operation(
        name="notifications.retry", path="/v1/notifications/retry", **CHANGE, handler=retry,
        answer=RetriedNotifications, body=RetryNotifications, again=retried, refusals=(404,),
        made=lambda result: {"retried": result}, example={"channel": "mail"},
        summary="Send again what was given up.",
    ),
    Operation(
        name="notifications.channels", path="/v1/notification-channels", **READ, handler=channels,
        answer=Page[NotificationChannel], query=PageQuery, summary="The channels of notifications, by name.",
    ),
    Operation(
        name="notifications.test", path=f"{CHANNEL}/test", **CHANGE, handler=test, answer=Notification, body=Nothing,
        status=201, again=tested, made=lambda result: {"notification": result.id}, decisive="notification.write_test",
        summary="Send a notification that only tests a channel. A process whose settings describe it sends it.",
    ),
    Operation(
        name="notifications.remove", path=f"{CHANNEL}/remove", **CHANGE, handler=remove, answer=RemovedChannel,
        body=Nothing, again=removed, summary="Write nothing more for a channel, and give up what waits for it.",
    ),
)  # fmt: skip
