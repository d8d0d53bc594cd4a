"""The roles of a PostgreSQL store: make them, and see whether they are in force.

Which role may do what is declared in `store.rights`. The evidence is what the server itself answers about the rights of
each role on each table, not what was applied once.
"""

from __future__ import annotations

import msgspec

from perdure.errors import ConfigError, NotFound
from perdure.store.databases.postgres import roles
from perdure.store.inspection import read_access
from perdure.store.move import StoreTransaction
from perdure.store.moves import meta
from perdure.store.rights import ROLES
from perdure.store.upgrade import migrator

SOME = 20
MANY = 10_000


class RoleReport(msgspec.Struct, frozen=True):
    """The roles of a store: who has each, and how their rights differ from those that are declared.

    `login` is the role of the connection that asked; `is_owner` and `is_superuser` say whether it is bound by rights.
    """

    prefix: str | None
    members: dict[str, list[str]]
    differences: list[str]
    login: str
    is_superuser: bool
    is_owner: bool
    powerful_clients: list[str]

    @property
    def in_force(self) -> bool:
        return self.prefix is not None and not self.differences


def role_statements(prefix: str = roles.PREFIX) -> str:
    """The SQL that makes the roles and gives them their rights."""
    return roles.all_roles(prefix)


def apply_roles(target: str | None, prefix: str | None = None) -> RoleReport:
    """Make the roles in the database of a store, and give them their rights; it may be repeated.

    Without `prefix`: the one that the store has, or the usual one.
    """
    place = read_access.locate_store(target)
    if place.kind != "postgres":
        raise ConfigError(f"{place.shown} has no roles.", hint="Roles need a store on PostgreSQL.")
    with read_access.read_store(place) as found:
        properties = read_access.properties(found.tx)
        if not properties:
            raise NotFound(f"{place.shown} holds no Perdure store.", hint="The first use creates it.")
        chosen = prefix or properties.get(roles.RECORDED) or roles.PREFIX
    with migrator(place) as database:
        database.lock()
        try:
            database.give_rights(chosen)
        finally:
            database.unlock()
    with read_access.read_store(place) as found:
        return examine_roles(found.tx)


def examine_roles(tx: StoreTransaction) -> RoleReport:
    """Compare the rights in the database with those that are declared."""
    prefix = meta.get(tx, roles.RECORDED)
    login, is_superuser, is_owner = tx.one("doctor.login") or ("", False, False)
    powerful = [name for (name,) in tx.all("doctor.powerful_clients", limit=SOME)]
    if prefix is None:
        return RoleReport(None, {}, [], login, is_superuser, is_owner, powerful)
    names = [f"{prefix}_{role}" for role in ROLES]
    members: dict[str, list[str]] = {name: [] for name in names}
    for name, member in tx.all("doctor.role_members", roles=",".join(names)):
        members[name].append(member)
    return RoleReport(prefix, members, roles.differences(tx, prefix), login, is_superuser, is_owner, powerful)
