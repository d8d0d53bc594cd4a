"""Time travel: the state of a session after one of its events, and what a branch from there would be."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from perdure.console import timeline
from perdure.console.markup import money
from perdure.console.page import ConsoleContext, ConsolePage
from perdure.console.pages.session import show_page
from perdure.domain.caller import Verb
from perdure.domain.state import SessionState
from perdure.server.operation import Touch
from perdure.store.move import StoreTransaction
from perdure.store.moves import event
from perdure.store.moves import session as sessions

COLUMNS = ("status", "title", "owner", "queue", "model")
LATER = ("approval_id", "doubted_at", "error", "reference", "result", "verdict", "verdict_by", "verdict_because")
AROUND = 5  # entries before the event


async def show(context: ConsoleContext) -> Response:
    assert context.session is not None
    cursor = context.session.cursor
    number = max(1, min(context.number("number", cursor), cursor))
    whole = context.runtime.values.whole

    def read(tx: StoreTransaction) -> tuple[SessionState, timeline.Timeline]:
        session = sessions.get(tx, context.uid)
        return (
            event.state_at(tx, context.uid, number),
            timeline.read(tx, context.uid, session.cursor, whole, through=number),
        )

    state, lines = await context.store.read(read)
    return await show_page(
        context, "history.html", "history", number=number, cursor=cursor, state=state,
        columns=_columns(state.session),
        entries=[_then(one, state) for one in lines.entries[-AROUND:]],
        open_waits=[one for one in state.waits.values() if one.get("resolved_at") is None],
    )  # fmt: skip


def _columns(row: dict[str, Any]) -> list[tuple[str, Any]]:
    """What the page shows of the session as it was then."""
    found = [(name, row[name]) for name in COLUMNS if row.get(name) is not None]
    found += [
        (name, f"{row[key]:,}") for name, key in (("tokens in", "tokens_in"), ("out", "tokens_out")) if row.get(key)
    ]
    if row.get("cost_micros"):
        found.append(("cost", money(row["cost_micros"])))
    return [*found, ("restarts", row["restart_number"])] if row.get("restart_number") else found


def _then(one: timeline.TimelineEntry, state: SessionState) -> timeline.TimelineEntry:
    """An entry with its effect as it was then."""
    if one.effect is None:
        return one
    was = state.effects.get(one.effect.id, {})
    effect = msgspec.structs.replace(
        one.effect, **{name: was.get(name) for name in LATER}, state=str(was.get("state") or one.effect.state)
    )
    return msgspec.structs.replace(one, effect=effect, attempts=[], output=None)


PAGES = (ConsolePage("/sessions/{id}/at", Verb.READ_SESSION, Touch.SESSION, show, shows="transcript"),)
