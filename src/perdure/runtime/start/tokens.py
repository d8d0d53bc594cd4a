"""Tokens as people create and change them. The secret is made here, and leaves only with the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection

from perdure.domain.token import NewToken, TokenView, token_text
from perdure.ids import digest, new_name, new_secret
from perdure.runtime.definitions.durations import microseconds
from perdure.store.moves import token
from perdure.store.store import Store


class Tokens:
    """The tokens of a store. The authenticated identity decides who may change them."""

    def __init__(self, store: Store, by: str) -> None:
        self._store = store
        self._by = by

    async def listing(self) -> AsyncIterator[TokenView]:
        for one in await self._store.read(token.listing):
            yield one

    async def create(
        self, principal: str, *, scopes: Collection[str], label: str, expires: str | float | None, by: str | None
    ) -> NewToken:
        id, text = _new()
        view = await self._store.write(
            token.create(
                id,
                digest(text),
                principal,
                by=by or self._by,
                scopes=scopes,
                label=label,
                expires_at=self._end(expires),
            )
        )
        return NewToken(text, view)

    async def rotate(self, old: str, *, overlap: str | float, expires: str | float | None, by: str | None) -> NewToken:
        id, text = _new()
        found = await self._store.read(token.find, old)
        until = self._store.clock.now() + microseconds(overlap)
        view = await self._store.write(
            token.rotate(found.id, id, digest(text), by=by or self._by, until=until, expires_at=self._end(expires))
        )
        return NewToken(text, view)

    async def revoke(self, id: str, *, by: str | None) -> TokenView:
        found = await self._store.read(token.find, id)
        return await self._store.write(token.revoke(found.id, by=by or self._by))

    def _end(self, expires: str | float | None) -> int | None:
        return None if expires in (None, "never") else self._store.clock.now() + microseconds(expires or 0)


def _new() -> tuple[str, str]:
    id = new_name("t").removeprefix("t-")
    return id, token_text(id, new_secret())
