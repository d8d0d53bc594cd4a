"""Server-sent events as the client reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure.client.event_stream import StreamMessage, in_order, messages
from perdure.domain.event import Event
from perdure.errors import Damaged

SENT = (
    'event: event\nid: 7\ndata: {"text": "a\u2028b\x85c\x0bd"}\n\n: a sign of life\n\n'
    "event: text\ndata: one\ndata: two\n\nid: 8\ndata: cut"
)


async def pieces(content: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
async def test_messages_are_the_same_however_they_are_cut(size: int, end: str) -> None:
    found = [one async for one in messages(pieces(SENT.replace("\n", end).encode(), size))]
    assert found == [
        StreamMessage("event", '{"text": "a\u2028b\x85c\x0bd"}', "7"),
        StreamMessage("text", "one\ntwo", None),
    ]


def test_event_that_does_not_follow_is_not_given() -> None:
    event = Event("u", 9, "session.created", "ada", 1, None, "m", None, None, "d", "c")
    assert in_order(event, 8) is event
    for after in (7, 9):
        with pytest.raises(Damaged):
            in_order(event, after)
