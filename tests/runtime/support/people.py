"""People of a store, who vote with logins of their own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from perdure.domain.identity import Identity, acting
from perdure.ids import new_uid
from perdure.store.moves import principal
from perdure.store.store import Store


def as_person(name: str) -> AbstractContextManager[None]:
    """Act as a person whom a service has authenticated."""
    return acting(Identity("token", name))


def register(store: Store, *names: str, owner: str = "olga", roles: Sequence[str] = ("approver",)) -> None:
    """Register people, by default approvers; the first principal of the store is an owner of another name."""
    with as_person(owner):
        store.write_now(principal.put(new_uid(), owner, by=owner, roles=["owner"], logins=[f"token:{owner}"]))
        for name in names:
            store.write_now(principal.put(new_uid(), name, by=owner, roles=roles, logins=[f"token:{name}"]))
