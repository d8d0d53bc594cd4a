"""The tokens and the cost of a session over time."""

from __future__ import annotations

from starlette.responses import Response

from perdure.console.page import ConsoleContext, ConsolePage
from perdure.console.pages.session import show_page
from perdure.console.plots import usage
from perdure.domain.caller import Verb
from perdure.server.operation import Touch
from perdure.store.move import StoreTransaction
from perdure.store.moves import session as sessions

SHOWN = 200  # calls in the table


async def show(context: ConsoleContext) -> Response:
    def read(tx: StoreTransaction) -> usage.UsageHistory:
        return usage.history(tx, sessions.get(tx, context.uid))

    found = await context.store.read(read)
    return await show_page(context, "usage.html", "usage", usage=found, shown=found.points[:SHOWN], height=usage.HEIGHT)


PAGES = (ConsolePage("/sessions/{id}/usage", Verb.READ_SESSION, Touch.SESSION, show),)
