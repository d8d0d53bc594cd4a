"""Addresses of PostgreSQL: libpq's own, and two parameters of ours for a pooler that shares connections.

    postgresql://USER@pooler:6432/DB?perdure_pooler=transaction&perdure_direct_url=postgresql%3A%2F%2FUSER%40db%2FDB

A pooler in transaction mode, such as PgBouncer, gives each transaction any of its connections. So nothing may depend on
a connection that stays the same: no prepared statements, no options at the start, no lock or setting that outlives a
transaction. Notifications and migrations do depend on one, and use the direct address.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

import msgspec

from perdure.config import DIRECT_URL
from perdure.errors import ConfigError

POOLER, DIRECT = "perdure_pooler", DIRECT_URL
URGENT = 2  # connections for moves that must not wait behind others
NOTIFICATIONS = 2  # one to send them, one to receive them
SCHEMES = ("postgresql://", "postgres://")
_OURS = re.compile(r"([?&])(perdure_\w*)=([^&]*)")


class PostgresAddress(msgspec.Struct, frozen=True):
    """`url` is what libpq gets; `direct` leads to the server itself, where `url` leads to a pooler."""

    url: str
    pooled: bool
    direct: str | None


def parse_address(given: str) -> PostgresAddress:
    """Take our parameters out of an address."""
    ours = {name: unquote(value) for _, name, value in _OURS.findall(given)}
    if unknown := ours.keys() - {POOLER, DIRECT}:
        raise ConfigError(f"{min(unknown)} is not a parameter of an address.", hint=f"Known: {POOLER}, {DIRECT}.")
    if ours.get(POOLER, "transaction") != "transaction":
        raise ConfigError(
            f"{POOLER}={ours[POOLER]} is not a mode of a pooler that matters here.",
            hint=f"Use {POOLER}=transaction. A pooler in session mode needs no parameter.",
        )
    direct = ours.get(DIRECT)
    if direct is not None and (POOLER not in ours or not direct.startswith(SCHEMES) or _OURS.search(direct)):
        raise ConfigError(
            f"{DIRECT} needs {POOLER}=transaction beside it, and a percent-encoded address of the server itself.",
            hint=f"For example ?{POOLER}=transaction&{DIRECT}=postgresql%3A%2F%2Fdb.example.org%2Fperdure",
        )
    url = _OURS.sub(lambda found: "?" if found[1] == "?" else "", given).replace("?&", "?").removesuffix("?")
    return PostgresAddress(url, POOLER in ours, direct)


def connection_budget(connections: int) -> int:
    """How many connections a process opens at most, if `connections` of them write at the same time."""
    return connections + URGENT + readers(connections) + NOTIFICATIONS


def readers(connections: int) -> int:
    return max(2, connections // 2)


def direct_address(given: str) -> str | None:
    """The address of the server itself; None if only that of its pooler is known."""
    address = parse_address(given)
    return address.direct if address.pooled else address.url
