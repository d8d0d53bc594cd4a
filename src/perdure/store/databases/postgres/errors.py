"""PostgreSQL's errors: which of them are answers of the server, and what each is called here.

The only place where they are interpreted. An answer says that its statement failed and that its transaction is rolled
back. Every other error proves nothing about what was sent, and the connection that reported it is not used again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors

from perdure.errors import (
    ConfigError,
    Conflict,
    IllegalMove,
    NotPermitted,
    PerdureError,
    PolicyChanged,
    StoreFull,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from perdure.store.databases.postgres.migrator import PostgresTransaction

# Also as an error of a single statement, these tell of a connection, or of a commit whose outcome is not known: a
# pooler reports in its own name that its connection to the server is lost.
UNPROVEN = ("08", "40003", "57P")
ROLLED_BACK = (errors.SerializationFailure, errors.DeadlockDetected)  # the transaction can be tried again
OF_CONNECTION = (psycopg.Error, OSError, MemoryError)  # of the driver, and of this process while it sends or waits


class ConnectionLost(Exception):
    """The connection was lost; `sent` is the try whose COMMIT had been sent, if any."""

    def __init__(self, sent: PostgresTransaction | None, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.sent = sent


def is_answer(error: BaseException) -> bool:
    """Whether this is the server's answer to a statement, which has therefore failed.

    What has no code of the server is from psycopg or libpq: a lost connection, another number of answers than of
    statements, an answer that cannot be read, a command while another one is in progress. The server itself, or a
    pooler, reports the end of a connection as fatal, and does not say what became of a commit before it.
    """
    if not isinstance(error, psycopg.Error) or error.sqlstate is None:
        return False
    severity = error.diag.severity_nonlocalized or error.diag.severity
    return severity not in ("FATAL", "PANIC") and not error.sqlstate.startswith(UNPROVEN)


class InStep:
    """Around everything that is sent on a connection or received: an error that is no answer closes the connection."""

    def __init__(self, db: psycopg.Connection[Any]) -> None:
        self._db = db

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OF_CONNECTION) and not is_answer(error):
            self._db.close()


def translate(error: BaseException) -> BaseException:
    """Translate an error of the driver."""
    if isinstance(error, PerdureError) or not isinstance(error, psycopg.Error):
        return error
    text = (error.diag.message_primary or str(error)).strip()
    if isinstance(error, psycopg.IntegrityError):
        if (error.diag.table_name, error.diag.column_name) == ("attempt", "policy_version"):
            return PolicyChanged("The policy changed before the dispatch, or is frozen; nothing was dispatched.")
        if text.startswith("perdure: "):
            return IllegalMove(f"The database refused this: {text.removeprefix('perdure: ')}.")
        return Conflict(f"The database refused this: {text}.")
    if isinstance(error, errors.InsufficientPrivilege):
        return NotPermitted(f"The database does not permit this: {text.removeprefix('perdure: ')}.")
    if isinstance(error, (errors.DiskFull, errors.OutOfMemory)):
        return StoreFull("The disk of the database server is full; nothing of this move was written.")
    if isinstance(error, (errors.QueryCanceled, errors.LockNotAvailable)):
        return StoreUnavailable(f"The database took too long: {text}.")
    if isinstance(error, (errors.DataError, psycopg.DataError)):
        return ConfigError(f"The database cannot hold this: {text}.")
    return StoreUnavailable(f"PostgreSQL failed: {text}.")
