"""Full-text search over the sessions of a store: ids, titles, prompts, and what their events say.

The index follows the logs with each search, so it costs nothing before the first, and a session waits for no index. A
search of the library indexes everything first; one of the service takes a limited time, and its page says whether that
was enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import msgspec

from perdure.domain.search import SearchHit, parse_query
from perdure.errors import Damaged, NotPermitted
from perdure.runtime.access.access_log import AccessLog
from perdure.store.moves import search
from perdure.store.moves import session as sessions
from perdure.store.store import Store

READ = 100  # hits that are read at once
MOST_READ = 5000  # hits that are read for one page, among them those that the caller may not see
PATIENCE = 2.0  # seconds for which a page extends the index
END = 2**62


class HitPage(msgspec.Struct, frozen=True):
    """Hits, the last indexed first. `next` is what to pass as `after`; `is_complete`: every event is in the index."""

    items: list[SearchHit]
    next: int | None = None
    is_complete: bool = True


class Search:
    """Searches a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._access = AccessLog(store)
        self._extending = asyncio.Lock()

    async def search(self, text: str, *, session: str | None = None) -> AsyncIterator[SearchHit]:
        """Events with all the words of a text, and sessions so named, the last indexed first.

        Each word may be the beginning of a word; words in quotes follow one another. The first search of a store
        indexes it, which takes a while; after that the index follows.
        """
        query = parse_query(text)
        uid = None if session is None else (await self._store.read(sessions.find, session)).uid
        await self._extend()
        noted: set[str] = set()
        before = END
        while found := await self._store.read(search.find, query, uid=uid, before=before, limit=READ):
            for place in found:
                await self._note(place.session_uid, noted)
                if (one := await self._store.read(search.hit, query, place)) is not None:
                    yield one
            before = found[-1].position

    async def page(
        self, text: str, may_see: Callable[[str], Awaitable[bool]], *, session_uid: str | None = None,
        after: int | None = None, limit: int = READ, is_by_session: bool = False,
    ) -> HitPage:  # fmt: skip
        """A page of the hits that a caller may see; `is_by_session`: of each session only one."""
        query = parse_query(text)
        is_complete = await self._extend(PATIENCE)
        kept: dict[object, SearchHit] = {}
        before, seen, noted = after or END, 0, set[str]()
        while seen < MOST_READ:
            found = await self._store.read(search.find, query, uid=session_uid, before=before, limit=READ)
            for place in found:
                key = place.session_uid if is_by_session else place.position
                if key in kept or not await _may_see(place.session_uid, may_see):
                    continue
                if len(kept) == limit:
                    return HitPage(list(kept.values()), before, is_complete)
                await self._note(place.session_uid, noted)
                if (one := await self._store.read(search.hit, query, place)) is not None:
                    kept[key], before = one, one.position
            if len(found) < READ:
                return HitPage(list(kept.values()), None, is_complete)
            before, seen = found[-1].position, seen + len(found)
        return HitPage(list(kept.values()), before, is_complete)

    async def _note(self, uid: str, noted: set[str]) -> None:
        """A part of a transcript is shown: once for each session, if the policy logs that."""
        if uid not in noted:
            noted.add(uid)
            await self._access.note("transcript", uid)

    async def _extend(self, patience: float | None = None) -> bool:
        """Index what is not indexed, for so many seconds; returns whether nothing is left.

        A login that may only read searches what others have indexed.
        """
        clock = asyncio.get_running_loop()
        until = None if patience is None else clock.time() + patience
        async with self._extending:
            await rewrite_index(self._store)
            while True:
                try:
                    progress = await self._store.write(search.extend())
                except NotPermitted:
                    return False
                if progress.is_complete or (until is not None and clock.time() > until):
                    return progress.is_complete


async def _may_see(uid: str, may_see: Callable[[str], Awaitable[bool]]) -> bool:
    """A session whose row is damaged is not shown: what a caller may see of it is not known."""
    try:
        return await may_see(uid)
    except Damaged:
        return False


async def rewrite_index(store: Store) -> None:
    """Write the index anew if words were erased from it; a login without the right leaves that to others."""
    with suppress(NotPermitted):
        if await store.read(search.is_erased):
            await store.write(search.rewrite())
