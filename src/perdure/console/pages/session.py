"""One session: what it needs, its plan, and its timeline, live."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from perdure.console import inbox_item, timeline
from perdure.console.live import live_session
from perdure.console.page import ConsoleContext, ConsolePage
from perdure.domain.caller import Verb
from perdure.domain.session import SessionRecord
from perdure.domain.wait import Wait
from perdure.ids import new_name
from perdure.runtime.record_edits import reads_messages
from perdure.server.operation import Touch
from perdure.store.move import StoreTransaction
from perdure.store.moves import inbox, task, wait
from perdure.store.moves import session as sessions

TASKS = 200


class Around(msgspec.Struct, frozen=True):
    """What every page of a session shows of it."""

    session: SessionRecord
    waits: list[Wait]
    reads_messages: bool
    parent: SessionRecord | None
    origin: SessionRecord | None  # what it was forked from
    unread: int


def around(tx: StoreTransaction, uid: str) -> Around:
    """The session as it is now, and those that it belongs to."""
    found = sessions.get(tx, uid)
    parent = None if found.parent_uid is None else sessions.get(tx, found.parent_uid)
    origin = None if found.forked_from is None else sessions.get(tx, found.forked_from)
    return Around(
        found, wait.open_of_session(tx, uid), reads_messages(tx, found), parent, origin, len(inbox.unread(tx, uid))
    )


async def show_page(context: ConsoleContext, template: str, tab: str, **values: object) -> Response:
    """A page of the session, with its head."""
    about = await context.store.read(around, context.uid)
    return context.show(template, **head(context, about, tab), **values)


def head(context: ConsoleContext, about: Around, tab: str) -> dict[str, Any]:
    """What every page of a session shows, as far as the caller may see it."""
    related = (about.parent, about.origin)
    parent, origin = (
        one if one is not None and context.caller.may(Verb.READ_SESSION, one) else None for one in related
    )
    return {
        "session": about.session, "waits": about.waits, "reads_messages": about.reads_messages, "parent": parent,
        "origin": origin, "unread": about.unread, "tab": tab, "message_id": new_name("m"),
    }  # fmt: skip


async def show(context: ConsoleContext) -> Response:
    """The timeline. What is above it is sent before it is read."""
    through = context.number("through", 0) or None
    whole = context.runtime.values.whole

    def read(tx: StoreTransaction) -> dict[str, Any]:
        about = around(tx, context.uid)
        needs = inbox_item.of_session(tx, about.session, about.waits, context.caller, whole)
        inbox_item.will_show(tx, context, needs)
        return head(context, about, "timeline") | {
            "timeline": timeline.read(tx, context.uid, about.session.cursor, whole, through=through),
            "needs": needs, "tasks": task.of_session(tx, context.uid, limit=TASKS),
        }  # fmt: skip

    async def rest() -> dict[str, Any]:
        found = await context.store.read(read)
        await context.record_reads()
        return found

    return context.stream("session.html", rest, session=context.session, is_newest=through is None)


async def live(context: ConsoleContext) -> Response:
    assert context.session is not None
    return live_session(context, context.number("after", context.session.cursor))


PAGES = (
    ConsolePage("/sessions/{id}", Verb.READ_SESSION, Touch.SESSION, show, shows="transcript"),
    ConsolePage("/sessions/{id}/live", Verb.READ_SESSION, Touch.SESSION, live, streams=True),
)
