"""How a connection to PostgreSQL is opened: to the primary, with time limits, at one isolation level.

The time limits are options of a connection of our own, and replace those of the server, database and role. Behind a
pooler, where a connection keeps nothing, every transaction sets them for itself (`limits_of`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import conninfo

from perdure.errors import ConfigError, StoreUnavailable
from perdure.process import leave_to_parent
from perdure.store.databases.postgres.address import DIRECT, POOLER, direct_address, parse_address
from perdure.store.move import Row

_LIMITS = {
    "synchronous_commit": "on",
    "statement_timeout": "30s",
    "lock_timeout": "20s",
    "idle_in_transaction_session_timeout": "60s",
}
OPTIONS = " ".join(f"-c {name}={value}" for name, value in _LIMITS.items()) + " -c idle_session_timeout=0"
CONNECT_TIME, LAST_CONNECT_TIME = 10, 2  # seconds to open a connection; the same in a process that ends
ISOLATION = "-c default_transaction_isolation=read\\ committed"


class PooledConnection(psycopg.Connection[Row]):
    """A connection to a pooler: every transaction may run on another connection of the server."""


def connect(url: str, *, within: float = CONNECT_TIME) -> psycopg.Connection[Row]:
    """Open a connection to the primary, with time limits for a partitioned network."""
    address = parse_address(url)
    try:
        given = conninfo.conninfo_to_dict(address.url)
        defaults: dict[str, Any] = {
            "connect_timeout": within,
            "tcp_user_timeout": 10_000,
            "keepalives_idle": 10,  # the default is two hours: too long to notice a server that is gone
            "keepalives_interval": 3,
            "keepalives_count": 3,
            "target_session_attrs": "read-write",
            "application_name": "perdure",
        }
        if not address.pooled:
            given["options"] = f"{OPTIONS} {given.get('options') or ''} {ISOLATION}"  # the last one wins
        elif given.get("options"):
            raise ConfigError(
                "Options of a connection do not reach the server through a pooler.",
                hint="Take `options` out of the address, and set them for the role: ALTER ROLE … SET …",
            )
        kind = PooledConnection if address.pooled else psycopg.Connection[Row]
        db = kind.connect(**(defaults | given), autocommit=True)
        with closing_on_error(db):
            leave_to_parent(db.fileno())  # a forked child that closed it would end the session for its parent
            db.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # of every `db.transaction()`
            if address.pooled:
                db.prepare_threshold = None  # no statement is prepared
            elif db.info.server_version >= 170000 and "transaction_timeout" not in str(given["options"]):
                db.execute("SET transaction_timeout = 0")  # older servers would refuse it as an option
        return db
    except psycopg.ProgrammingError as error:
        raise ConfigError(f"This is not a PostgreSQL address: {error}".strip() + ".") from error
    except psycopg.Error as error:
        reason = str(error).strip().splitlines()[0].removeprefix("connection failed: ").rstrip(".")
        hint = (
            f"A pooler in transaction mode needs {POOLER}=transaction in the address." if "startup" in reason else None
        )
        raise StoreUnavailable(f"PostgreSQL cannot be reached: {reason}.", hint=hint) from error


@contextmanager
def closing_on_error(db: psycopg.Connection[Row]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        db.close()
        raise


def connect_direct(url: str) -> psycopg.Connection[Row]:
    """Open a connection to the server itself, for what needs a connection that stays the same."""
    direct = direct_address(url)
    if direct is None:
        raise ConfigError(
            f"The schema cannot be created or migrated through a pooler in transaction mode, and {DIRECT} is not set.",
            hint=f"Add {DIRECT} beside {POOLER}, or run `perdure migrate --store ADDRESS` with the server's address.",
        )
    return connect(direct)


def limits_of(db: psycopg.Connection[Row]) -> str:
    """The statement that sets the time limits of a transaction."""
    limits = _LIMITS | ({"transaction_timeout": "0"} if db.info.server_version >= 170000 else {})
    return "SELECT " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in limits.items())


@contextmanager
def limited_transaction(db: psycopg.Connection[Row]) -> Iterator[None]:
    """A transaction with our time limits, also behind a pooler."""
    with db.transaction():
        if isinstance(db, PooledConnection):
            db.execute(limits_of(db).encode())
        yield
