"""Roles of a PostgreSQL database: the statements that make them, from the declared rights (`store.rights`).

Roles belong to the whole server and rights to one database: several stores may share the roles, or each have its own
prefix. The prefix is recorded in the store, so that a migration gives the rights on new tables too.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from importlib import resources

from perdure.errors import ConfigError
from perdure.store import migrate
from perdure.store.move import StoreTransaction
from perdure.store.rights import READ, ROLES, TABLES, grant_text, granted

PREFIX = "perdure"
RECORDED = "roles"  # the property of the store that names the prefix
VERBS = ("select", "insert", "update", "delete")
VIEW_READERS = ("service", "auditor")
_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,40}\Z")


def role_text(prefix: str, tables: Collection[str], views: Collection[str]) -> str:
    """The statements that make the roles, and give them their rights on these tables and views."""
    if not _PREFIX.match(prefix):
        raise ConfigError(f"{prefix!r} cannot begin the name of a role.", hint="Use lower-case letters, digits and _.")
    template = resources.files("perdure.store").joinpath("migrations", "roles.sql").read_text(encoding="utf-8")
    lines = [template.replace("{prefix}", prefix).replace("{relations}", ",".join([*tables, *views]))]
    for name in tables:
        lines += [
            f"grant {text} on {name} to {prefix}_{role};" for role in ROLES[:-1] if (text := grant_text(name, role))
        ]
    readers = ", ".join(f"{prefix}_{role}" for role in VIEW_READERS)
    lines += [f"grant {READ} on {name} to {readers};" for name in views]
    return "\n".join(lines) + "\n"


def all_roles(prefix: str = PREFIX) -> str:
    """The same for every table and view of this code."""
    return role_text(prefix, list(TABLES), migrate.view_names())


def differences(tx: StoreTransaction, prefix: str) -> list[str]:
    """How the rights of the roles in the database differ from those that are declared, as the server answers."""
    names = ",".join(f"{prefix}_{role}" for role in ROLES[:-1])
    rows = tx.all("doctor.role_rights", roles=names, tables=",".join(TABLES))
    found = {(role, table): rights for role, table, *rights in rows}
    different = []
    for role in ROLES[:-1]:
        name = f"{prefix}_{role}"
        for table in TABLES:
            if (rights := found.get((name, table))) is None:
                different.append(f"{name} or the table {table} is missing")
                continue
            declared, some = granted(table, role), dict(zip(("insert", "update"), rights[4:], strict=True))
            for verb, whole in zip(VERBS, rights[:4], strict=True):
                has = whole or some.get(verb, False)
                wanted, limited = verb in declared, bool(declared.get(verb))
                if has and (not wanted or (limited and whole)):
                    different.append(f"{name} may {verb} on {table}" + (", on every column" if limited else ""))
                if wanted and not has:
                    different.append(f"{name} may not {verb} on {table}")
    return different
