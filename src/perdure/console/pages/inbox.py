"""The inbox: what needs a person, the longest wait first."""

from __future__ import annotations

from starlette.responses import Response

from perdure.console import inbox_item
from perdure.console.inbox_item import InboxItem
from perdure.console.live import Watch, live_list
from perdure.console.page import ConsoleContext, ConsolePage
from perdure.domain.caller import Verb
from perdure.errors import ConfigError
from perdure.server.operation import Touch
from perdure.server.page import decode_key, encode_key
from perdure.store.move import StoreTransaction
from perdure.store.moves import quorum
from perdure.store.moves.wait import WaitKey


async def show(context: ConsoleContext) -> Response:
    whole, after = context.runtime.values.whole, _start(context.given("after"))

    def read(tx: StoreTransaction) -> tuple[inbox_item.InboxPage, list[InboxItem]]:
        found = inbox_item.page(tx, context.caller, after)
        needs = inbox_item.items(tx, found, context.caller, whole)
        inbox_item.will_show(tx, context, needs)
        return found, needs

    found, needs = await context.store.read(read)
    await context.record_reads()
    return context.show(
        "inbox.html", needs=needs, next=None if found.following is None else encode_key(*found.following),
        is_whole=found.is_whole, is_first=after == WaitKey(), searched=inbox_item.SEARCHED,
    )  # fmt: skip


def _start(after: str) -> WaitKey:
    if not after:
        return WaitKey()
    try:
        since, uid, id = decode_key(after, int, str, str)
    except ConfigError:
        raise ConfigError("This page of the inbox does not exist.", hint="Begin with the first one.") from None
    return WaitKey(int(since), str(uid), str(id))


async def live(context: ConsoleContext) -> Response:
    def read(tx: StoreTransaction) -> object:
        """What the first page shows, without its details: another vote changes who may still vote."""
        found = inbox_item.page(tx, context.caller, WaitKey())
        return [(one.session_uid, one.id, len(quorum.votes(tx, one.session_uid, one.id))) for one, _ in found.waits]

    async def sign() -> object:
        return await context.store.read(read)

    return live_list(context, Watch(sign))


PAGES = (
    ConsolePage("/", Verb.READ_SESSION, Touch.LISTING, show),
    ConsolePage("/live", Verb.READ_SESSION, Touch.LISTING, live, streams=True),
)
