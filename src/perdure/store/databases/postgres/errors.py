"""Translation of PostgreSQL's errors. The only place where they are interpreted."""

from __future__ import annotations

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
