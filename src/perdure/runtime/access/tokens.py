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

    async def tokens(self) -> AsyncIterator[TokenView]:
        """The tokens of the service, the newest first; without their secrets."""
        for one in await self._store.read(token.listing):
            yield one

    async def create_token(
        self, principal: str, *, scopes: Collection[str] = (), label: str = "", expires: str | float | None = "90d",
        by: str | None = None,
    ) -> NewToken:  # fmt: skip
        """Create a token of a principal, with its roles, for what the scopes name; without scopes, for nothing.

        A scope is `*`, `queue:NAME` or `repository:NAME`; NAME may end with `*`. Its text is returned only here.
        """
        id, text = _new()
        move = token.create(
            id, digest(text), principal, by=by or self._by, scopes=scopes, label=label, expires_at=self._end(expires)
        )
        return NewToken(text, await self._store.write(move))

    async def rotate_token(
        self, id: str, *, overlap: str | float = "24h", expires: str | float | None = "90d", by: str | None = None
    ) -> NewToken:
        """Replace a token by a new one with the same scopes; the old one is valid for `overlap` longer."""
        new_id, text = _new()
        found = await self._store.read(token.find, id)
        until = self._store.clock.now() + microseconds(overlap)
        move = token.rotate(
            found.id, new_id, digest(text), by=by or self._by, until=until, expires_at=self._end(expires)
        )
        return NewToken(text, await self._store.write(move))

    async def revoke_token(self, id: str, *, by: str | None = None) -> TokenView:
        """Revoke a token: the service refuses it from now on, and ends its streams within seconds."""
        found = await self._store.read(token.find, id)
        return await self._store.write(token.revoke(found.id, by=by or self._by))

    def _end(self, expires: str | float | None) -> int | None:
        return None if expires in (None, "never") else self._store.clock.now() + microseconds(expires or 0)


def _new() -> tuple[str, str]:
    id = new_name("t").removeprefix("t-")
    return id, token_text(id, new_secret())
