"""How a connection to PostgreSQL is opened: to the primary, with time limits, at one isolation level."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import conninfo

from perdure.errors import ConfigError, StoreUnavailable
from perdure.process import leave_to_parent
from perdure.store.move import Row

SETTINGS = (
    "-c synchronous_commit=on -c statement_timeout=30s -c lock_timeout=20s -c idle_in_transaction_session_timeout=60s"
)
ISOLATION = "-c default_transaction_isolation=read\\ committed"


def connect(url: str) -> psycopg.Connection[Row]:
    """Open a connection to the primary, with time limits for a partitioned network."""
    try:
        given = conninfo.conninfo_to_dict(url)
        defaults: dict[str, Any] = {
            "connect_timeout": 10,
            "tcp_user_timeout": 10_000,
            "keepalives_idle": 10,  # the default is two hours: too long to notice a server that is gone
            "keepalives_interval": 3,
            "keepalives_count": 3,
            "target_session_attrs": "read-write",
            "application_name": "perdure",
        }
        given["options"] = f"{SETTINGS} {given.get('options') or ''} {ISOLATION}"  # the last one wins
        db = psycopg.connect(**(defaults | given), autocommit=True)
        leave_to_parent(db.fileno())  # a forked child that closed it would end the session for its parent
        db.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # of every `db.transaction()`
        return db
    except psycopg.ProgrammingError as error:
        raise ConfigError(f"This is not a PostgreSQL address: {error}".strip() + ".") from error
    except psycopg.OperationalError as error:
        reason = str(error).strip().splitlines()[0].removeprefix("connection failed: ").rstrip(".")
        raise StoreUnavailable(f"PostgreSQL cannot be reached: {reason}.") from error
