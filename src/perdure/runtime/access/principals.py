"""Principals as people see and change them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Literal

from perdure.domain.principal import PrincipalView
from perdure.ids import new_uid
from perdure.store.moves import principal
from perdure.store.store import Store


class Principals:
    """The principals of a store. `by` is shown as who changes them; the authenticated identity decides who may."""

    def __init__(self, store: Store, by: str) -> None:
        self._store = store
        self._by = by

    async def principals(self) -> AsyncIterator[PrincipalView]:
        """The people and programs that the store knows, with their roles and logins, by name."""
        for one in await self._store.read(principal.listing):
            yield one

    async def add_principal(
        self, name: str, *, kind: Literal["person", "program"] = "person", roles: Collection[str] = (),
        logins: Collection[str] = (), by: str | None = None,
    ) -> PrincipalView:  # fmt: skip
        """Add a person or a program. The first principal of a store is you, as its owner; later only an owner may.

        A login is `os:UID`, `db:ROLE`, `token:ID` or `oidc:SUBJECT`. All logins of one person belong to one principal.
        """
        move = principal.put(
            new_uid(), name, by=by or self._by, kind=kind, roles=roles or None, logins=logins, must_exist=False
        )
        return await self._store.write(move)

    async def set_principal(
        self, name: str, *, roles: Collection[str] | None = None, logins: Collection[str] = (), by: str | None = None
    ) -> PrincipalView:
        """Replace the roles of a principal, if they are given, and add logins."""
        move = principal.put(new_uid(), name, by=by or self._by, kind=None, roles=roles, logins=logins, must_exist=True)
        return await self._store.write(move)

    async def remove_principal(self, name: str, *, login: str | None = None, by: str | None = None) -> PrincipalView:
        """Remove a principal, or only one of its logins; returns the principal. The last owner stays."""
        if login is not None:
            return await self._store.write(principal.remove_login(name, login, by=by or self._by))
        return await self._store.write(principal.remove(name, by=by or self._by))
