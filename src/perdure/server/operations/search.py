"""Full-text search over the sessions that the caller may see."""

from __future__ import annotations

from perdure.domain.caller import Verb
from perdure.domain.search import SearchHit
from perdure.server.authorization import Sight
from perdure.server.operation import Context, Operation, Touch
from perdure.server.page import Page, PageQuery, decode_key, encode_key


class SearchQuery(PageQuery, frozen=True, kw_only=True):
    """Words that an event contains; those in quotes follow one another."""

    text: str
    session: str | None = None


class SearchPage(Page[SearchHit], frozen=True):
    """Hits, the last indexed first. `is_complete`: every event is in the index by now."""

    is_complete: bool = True


async def search(context: Context) -> SearchPage:
    query: SearchQuery = context.query
    sight = Sight(context)
    uid = await sight.session_uid(query.session)
    after = None if query.after is None else int(decode_key(query.after, int)[0])
    found = await context.runtime.searches.page(
        query.text, sight.sees_session, session_uid=uid, after=after, limit=query.limit
    )
    return SearchPage(found.items, None if found.next is None else encode_key(found.next), found.is_complete)


OPERATIONS = (
    Operation(
        name="search", method="GET", path="/v1/search", verb=Verb.READ_SESSION, touches=Touch.LISTING,
        handler=search, answer=SearchPage, query=SearchQuery, summary="Search titles, messages and outputs.",
    ),
)  # fmt: skip
