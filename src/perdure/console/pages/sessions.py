"""The list of sessions: filters, and a search in what they said and did."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from starlette.responses import Response

from perdure.console.live import Watch, live_list
from perdure.console.page import ConsoleContext, ConsolePage
from perdure.domain.caller import Verb
from perdure.domain.search import SearchHit
from perdure.domain.session import SessionRecord, Status
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import ConfigError
from perdure.runtime.session_change import SessionChange
from perdure.server.operation import Touch
from perdure.server.page import decode_key, encode_key
from perdure.store.move import StoreTransaction
from perdure.store.moves import session as sessions
from perdure.store.moves import wait

SHOWN = 50
READ = 200


class Listing(NamedTuple):
    """A page of sessions, each with the hit of a search, and where the next page begins."""

    sessions: Sequence[tuple[SessionRecord, SearchHit | None]]
    next: str | None = None
    is_complete: bool = True  # every event was searched


async def show(context: ConsoleContext) -> Response:
    found = await listing(context)
    return context.show(
        "sessions.html", listing=found, may_change=context.may(Verb.STEER_SESSION), changes=list(SessionChange),
        waits=await context.store.read(_waits, found),
        statuses=[str(one) for one in Status], kinds=sorted(str(one) for one in WaitKind),
        filters={name: context.given(name) for name in ("q", "status", "waiting", "owner", "queue", "after")},
    )  # fmt: skip


def _waits(tx: StoreTransaction, found: Listing) -> dict[str, list[Wait]]:
    """What the waiting ones wait for."""
    waiting = [one for one, _ in found.sessions if one.status in (Status.WAITING, Status.READY)]
    return {one.uid: wait.open_of_session(tx, one.uid) for one in waiting}


async def listing(context: ConsoleContext, after: str | None = None) -> Listing:
    """A page of the sessions that fit the filters; without `after`, the one that the address names."""
    after = context.given("after") if after is None else after
    if text := context.given("q").strip():
        return await _search(context, text, after)
    kept: list[SessionRecord] = []
    async for one in _all(context, after):
        if not _fits(context, one):
            continue
        if len(kept) == SHOWN:
            return Listing([(one, None) for one in kept], encode_key(kept[-1].updated_at, kept[-1].uid))
        kept.append(one)
    return Listing([(one, None) for one in kept])


async def _search(context: ConsoleContext, text: str, page: str) -> Listing:
    """Sessions with a hit that the caller may see, the last said first."""
    fitting: dict[str, SessionRecord] = {}

    async def fits(uid: str) -> bool:
        one, waits = await context.store.read(lambda tx: (sessions.get(tx, uid), wait.open_of_session(tx, uid)))
        kind = context.given("waiting")
        if is_fitting := _fits(context, one) and (not kind or any(asked.kind == kind for asked in waits)):
            fitting[uid] = one
        return is_fitting

    after = _place(page, int)
    found = await context.runtime.searches.page(
        text, fits, after=after[0] if after else None, limit=SHOWN, is_by_session=True
    )
    listed = [(fitting[one.session_uid], one) for one in found.items]
    return Listing(listed, None if found.next is None else encode_key(found.next), found.is_complete)


async def _all(context: ConsoleContext, after: str) -> AsyncIterator[SessionRecord]:
    filters: dict[str, Any] = {
        "status": context.given("status") or None, "waiting_for": context.given("waiting") or None,
        "owner": context.given("owner") or None,
    }  # fmt: skip
    at = _place(after, int, str)
    before: Any = None if at is None else sessions.Before(*at)
    while found := await context.store.read(sessions.page, **filters, before=before, limit=READ):
        for before in found:
            yield before


def _place(after: str, *kinds: type) -> tuple[Any, ...] | None:
    if not after:
        return None
    try:
        return tuple(decode_key(after, *kinds))
    except ConfigError:
        raise ConfigError("This page of the list does not exist.", hint="Begin with the first one.") from None


def _fits(context: ConsoleContext, one: SessionRecord) -> bool:
    given = {name: context.given(name) for name in ("status", "owner", "queue")}
    fits = all(not value or value == getattr(one, name) for name, value in given.items())
    return fits and context.caller.may(Verb.READ_SESSION, one)


async def live(context: ConsoleContext) -> Response:
    async def sign() -> object:
        return [(one.uid, one.status, one.cursor) for one, _ in (await listing(context)).sessions]

    return live_list(context, Watch(sign))


PAGES = (
    ConsolePage("/sessions", Verb.READ_SESSION, Touch.LISTING, show),
    ConsolePage("/live/sessions", Verb.READ_SESSION, Touch.LISTING, live, streams=True),
)
