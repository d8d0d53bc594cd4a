"""Pages of lists. A page ends with the key after which the next one begins, so that changes do not shift it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from perdure.domain.record import Record
from perdure.errors import ConfigError
from perdure.server.authorization import Sight
from perdure.server.operation import Body, Context
from perdure.store.moves.page import Key, PlacedRow

T = TypeVar("T")
R = TypeVar("R", bound=Record)
MOST = 1000
AT_ONCE = 500  # rows that are read for a caller who may see only some
Limit = Annotated[int, msgspec.Meta(ge=1, le=MOST)]


class PageQuery(Body, frozen=True):
    """Which page of a list: `after` is `next` of the page before."""

    after: str | None = None
    limit: Limit = 100


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A page of a list. `next` is what to pass as `after`; null at the end."""

    items: list[T]
    next: str | None = None


def encode_key(*parts: int | str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(parts)).decode().rstrip("=")


def decode_key_of_any(text: str) -> tuple[int | str, ...]:
    """The parts of a key of whatever types."""
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=list[int | str])
    except (ValueError, binascii.Error, msgspec.DecodeError, RecursionError):
        found = []
    return decode_key(text, *map(type, found))


def decode_key(text: str, *kinds: type) -> tuple[int | str, ...]:
    """The parts of a key; refuses one that was not made by `encode_key` with such parts."""
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error, msgspec.DecodeError, RecursionError):
        found = None
    if isinstance(found, list) and [type(part) for part in found] == list(kinds):
        if all((type(part) is str and "\0" not in part) or (type(part) is int and abs(part) < 2**62) for part in found):
            return tuple(found)
    raise ConfigError("`after` is not the `next` of a page of this list.")


def page_of(found: Iterable[T], query: PageQuery, key: Callable[[T], tuple[int | str, ...]]) -> Page[T]:
    """The part of a list that begins after the key of the query, in the order of the keys."""
    ordered = sorted(((key(one), number, one) for number, one in enumerate(found)), key=lambda one: one[:2])
    if query.after is not None and ordered:
        after = decode_key(query.after, *map(type, ordered[0][0]))
        ordered = [one for one in ordered if one[0] > after]
    kept = [one for _, _, one in ordered[: query.limit]]
    return Page(kept, encode_key(*ordered[query.limit - 1][0]) if len(ordered) > query.limit else None)


async def keyed_page(
    context: Context, sight: Sight, read: Callable[..., list[PlacedRow[R]]], kinds: tuple[type, ...], **filters: Any
) -> Page[R]:
    """The page that the query asks for, of a list that is read by key; `kinds` are the types of the parts of a key."""
    query, kept = context.query, list[R]()
    last: Key = ()
    after: Key | None = None if query.after is None else decode_key(query.after, *kinds)
    limit = query.limit + 1 if sight.sees_all else max(AT_ONCE, query.limit + 1)
    while True:
        rows = await context.store.read(read, after, limit=limit, **filters)
        for row in rows:
            if row.item is None or not sight.sees(row.place):
                continue
            if len(kept) == query.limit:
                return Page(kept, encode_key(*last))
            kept.append(row.item)
            last = row.key
        if len(rows) < limit:
            return Page(kept)
        after = rows[-1].key
