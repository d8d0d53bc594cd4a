"""Notifications as people and programs see them: what was sent, what was not, and the channels."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from functools import cached_property

from perdure.domain.literals import NotificationWord
from perdure.domain.notification import Notification, NotificationChannel
from perdure.errors import ConfigError
from perdure.ids import new_name
from perdure.runtime.notifications.channels import Channel, kind_of
from perdure.runtime.notifications.sender import deliver
from perdure.store.moves import notification
from perdure.store.store import Store

STATES = ("pending", "sent", "failed")


class NotificationOutbox:
    """The outbox of a store, and the channels that this process can send to."""

    def __init__(self, store: Store, by: str, read: Callable[[], Mapping[str, Channel]]) -> None:
        self._store = store
        self._by = by
        self._read = read

    @cached_property
    def channels(self) -> Mapping[str, Channel]:
        """The channels that the settings of this process describe; wrong settings raise here."""
        return self._read()

    async def notifications(
        self, *, state: NotificationWord | None = None, channel: str | None = None
    ) -> AsyncIterator[Notification]:
        """What people are told outside Perdure, the newest first."""
        if state is not None and state not in STATES:
            raise ConfigError(f"{state!r:.80} is not a state of a notification.", hint=f"Use {', '.join(STATES)}.")
        for one in await self._store.read(notification.listing, state=state, channel=channel):
            yield one

    async def notification_channels(self) -> AsyncIterator[NotificationChannel]:
        """The channels that notifications are written for, by name."""
        for one in await self._store.read(notification.channels):
            yield one

    async def register(self) -> None:
        """Register the channels of this process, so that what happens is written for them."""
        for name, channel in self.channels.items():
            await self._store.write(notification.put_channel(name, kind_of(channel), channel.topics, by=self._by))

    async def remove_notification_channel(self, name: str, *, by: str | None = None) -> bool:
        """Write nothing more for a channel, and give up what waits for it; False if there is none of this name."""
        return await self._store.write(notification.remove_channel(name, by=by or self._by))

    async def retry_notifications(self, id: str | None = None, *, channel: str | None = None) -> int:
        """Send what has failed again: one notification, those of a channel, or all. Returns how many."""
        return await self._store.write(notification.retry(id, channel=channel))

    async def test_notification(self, channel: str) -> Notification:
        """Send a notification that only tests a channel: from here if this process can, otherwise by a sender."""
        if channel in self.channels:
            await self.register()
        made = await self._store.write(notification.write_test(channel, new_name("n")))
        if channel in self.channels:
            await deliver(self._store, self.channels[channel], made, by=self._by)
        return await self._store.read(notification.get, made.id, channel)
