"""Principals as people see and change them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection

from perdure.domain.principal import PrincipalView
from perdure.ids import new_uid
from perdure.store.moves import principal
from perdure.store.store import Store


class Principals:
    """The principals of a store. `by` is shown as who changes them; the authenticated identity decides who may."""

    def __init__(self, store: Store, by: str) -> None:
        self._store = store
        self._by = by

    async def listing(self) -> AsyncIterator[PrincipalView]:
        for one in await self._store.read(principal.listing):
            yield one

    async def put(
        self,
        name: str,
        *,
        kind: str | None,
        roles: Collection[str] | None,
        logins: Collection[str],
        by: str | None,
        must_exist: bool,
    ) -> PrincipalView:
        """Add a principal, or change one that exists."""
        move = principal.put(
            new_uid(), name, by=by or self._by, kind=kind, roles=roles, logins=logins, must_exist=must_exist
        )
        return await self._store.write(move)

    async def remove(self, name: str, *, by: str | None) -> PrincipalView:
        return await self._store.write(principal.remove(name, by=by or self._by))

    async def remove_login(self, name: str, login: str, *, by: str | None) -> PrincipalView:
        return await self._store.write(principal.remove_login(name, login, by=by or self._by))
