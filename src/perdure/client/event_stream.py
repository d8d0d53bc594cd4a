"""The events of a session as they come, over lost connections and restarts of the service.

Each event is given once and in order: after a loss the stream begins again behind the last event that was given, and an
event that does not follow it is not given.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec

from perdure.client.connection import RetryPauses, ServiceCall, ServiceConnection
from perdure.clock import SECOND
from perdure.domain.event import Event
from perdure.errors import Damaged, PerdureError, StoreUnavailable

MEDIA = "text/event-stream"
SILENCE = 45.0  # seconds; the service sends signs of life more often
LASTED = 1.0  # seconds after which a stream was a success
PAGE = 500


class StreamMessage(NamedTuple):
    """One message of a stream of server-sent events."""

    kind: str
    data: str
    id: str | None


class EventPage(msgspec.Struct, frozen=True):
    items: list[Event]
    next: str | None = None


async def read_events(connection: ServiceConnection, path: str, after: int) -> AsyncIterator[Event]:
    """The events that exist, in pages."""
    while True:
        answer = await connection.ask(ServiceCall("GET", path, {"after": str(after), "limit": str(PAGE)}))
        page = msgspec.json.decode(answer.content, type=EventPage)
        for one in page.items:
            yield in_order(one, after)
            after = one.number
        if page.next is None:
            return


async def follow_events(connection: ServiceConnection, path: str, after: int) -> AsyncIterator[Event]:
    """All events after a number, without end."""
    retries = RetryPauses(connection)
    while True:
        began = connection.boot()
        try:
            headers = {"Accept": MEDIA, "Last-Event-ID": str(after)}
            async with connection.stream(ServiceCall("GET", path, {}), headers, SILENCE) as answer:
                async for message in messages(answer.aiter_bytes()):
                    if (event := event_of(message)) is None or event.number <= after:
                        continue
                    yield in_order(event, after)
                    after = event.number
                    retries.reset()
            ended: PerdureError = StoreUnavailable("The service ends the stream again and again.")
        except PerdureError as error:
            if not error.retry:
                raise
            ended = error
        if connection.boot() - began > LASTED * SECOND:
            retries.reset()
        await retries.pause(ended)


def in_order(event: Event, after: int) -> Event:
    if event.number != after + 1:
        raise Damaged(f"Event {event.number} was sent after event {after}: the stream has a gap.")
    return event


def event_of(message: StreamMessage) -> Event | None:
    """The event of a message; None for messages of other kinds."""
    if message.id is None or not message.data:
        return None
    try:
        return msgspec.json.decode(message.data, type=Event)
    except msgspec.ValidationError:
        return None  # live text, or what a newer service sends


async def messages(content: AsyncIterator[bytes]) -> AsyncIterator[StreamMessage]:
    """The messages of a stream; one that was cut off is left out.

    A line ends with a line feed and nothing else: other separators of Unicode may be in the text of an event.
    """
    fields: dict[str, str] = {}
    async for line in _lines(content):
        if not line:
            if "data" in fields:
                yield StreamMessage(fields.get("event", "message"), fields["data"], fields.get("id"))
            fields = {}
            continue
        field, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        fields[field] = f"{fields['data']}\n{value}" if field == "data" and "data" in fields else value


async def _lines(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    parts: list[bytes] = []
    async for piece in content:
        first, *others = piece.split(b"\n")
        parts.append(first)
        for one in others:
            yield b"".join(parts).removesuffix(b"\r")
            parts = [one]
