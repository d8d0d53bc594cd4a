"""The log of a session: in pages, and as a stream; and the live text of its model."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from perdure.domain.caller import Verb
from perdure.domain.event import Event
from perdure.errors import ConfigError
from perdure.server.operation import EVENT_STREAM, LAST_EVENT_ID, Body, Context, Number, Operation, Touch
from perdure.server.page import Limit, Page
from perdure.server.stream.response import EventStream
from perdure.server.stream.tail import EventLine
from perdure.store.move import StoreTransaction
from perdure.store.moves import event

LARGEST = 1 << 16  # bytes after which a chunk is sent: a client that takes nothing is noticed by the next one
WAIT = 2.0  # seconds after which a stream looks at its caller and its heartbeat


class EventQuery(Body, frozen=True):
    """Which events: those after a number."""

    after: Number = 0
    limit: Limit = 100


def page(tx: StoreTransaction, context: Context) -> Page[Event]:
    query: EventQuery = context.query
    assert context.session is not None
    check_number(query.after, context.session.cursor)
    found = event.after(tx, context.uid, query.after, limit=query.limit)
    has_more = bool(found) and found[-1].number < context.session.cursor
    return Page(found, str(found[-1].number) if has_more else None)


async def follow(context: Context) -> EventStream:
    """The stream instead of the page."""
    query: EventQuery = context.query
    assert context.session is not None
    after = last_number(context)
    check_number(query.after if after is None else after, context.session.cursor)
    await context.note_read("transcript", detail="stream")
    return stream(context, query.after if after is None else after)


def last_number(context: Context) -> int | None:
    """The number of the last event that the client has."""
    given = context.request.headers.get(LAST_EVENT_ID, "").strip()
    if not given:
        return None
    if not (given.isascii() and given.isdigit() and len(given) <= 15):
        raise ConfigError(f"Last-Event-ID is the number of an event, and not {given!r:.40}.")
    return int(given)


def check_number(after: int, cursor: int) -> None:
    """Refuse the number of an event that does not exist yet: the client has seen another store."""
    if after > cursor:
        raise ConfigError(f"The session has {cursor} events, and no event {after}.", hint="Read it from its start.")


def stream(context: Context, after: int) -> EventStream:
    state: Any = context.request.app.state
    assert context.session is not None
    lines = state.tails.follow(context.uid, context.session.cursor, after, patience(context))
    return EventStream(context, _chunks(lines), state.admission)


async def _chunks(lines: AsyncGenerator[list[EventLine], None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(lines):
        async for some in lines:
            chunk = b""
            for one in some:
                chunk += one.data
                if len(chunk) > LARGEST:
                    yield chunk
                    chunk = b""
            yield chunk


def patience(context: Context) -> float:
    settings = context.request.app.state.settings
    return float(min(WAIT, settings.heartbeat, settings.recheck))


async def live(context: Context) -> EventStream:
    state: Any = context.request.app.state
    await context.note_read("transcript", detail="live")
    return EventStream(context, state.live_tails.follow(context.uid, patience(context)), state.admission)


OPERATIONS = (
    Operation(
        name="events.list", method="GET", path="/v1/sessions/{id}/events", verb=Verb.READ_SESSION,
        touches=Touch.SESSION, read=page, shows="transcript", handler=follow, answer=Page[Event], query=EventQuery,
        also_streams=True,
        summary="The events of a session in order, after a number: a page, or a stream without end.",
    ),
    Operation(
        name="events.live", method="GET", path="/v1/sessions/{id}/live", verb=Verb.READ_SESSION,
        touches=Touch.SESSION, handler=live, media=EVENT_STREAM,
        summary="What the model of a session writes now, before it is recorded. Pieces may be missing.",
    ),
)  # fmt: skip
