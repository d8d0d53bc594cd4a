"""A store that is opened only to change its schema: nothing else is started, and nothing is created."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from perdure.clock import SystemClock
from perdure.durable import make_folder
from perdure.errors import ConfigError
from perdure.store.databases.sqlite.database import SQLiteMigrator
from perdure.store.databases.sqlite.engine import SQLiteEngine, connect, translate
from perdure.store.databases.sqlite.location import with_reserve
from perdure.store.inspection.read_access import StoreLocation, missing_driver
from perdure.store.migrate import Migrator
from perdure.store.writer.lock import WriteLock


@contextmanager
def migrator(location: StoreLocation) -> Iterator[Migrator]:
    """The migrator of the existing store at a location."""
    if location.kind == "postgres":
        with _of_server(location) as found:
            yield found
    elif location.path is not None and location.folder is not None and location.kind == "sqlite":
        make_folder(location.folder)
        path = str(location.path)
        engine = SQLiteEngine(
            with_reserve(location.folder, lambda: connect(path)), SystemClock(), WriteLock(location.folder)
        )
        try:
            yield SQLiteMigrator(engine, location.folder)
        except apsw.Error as error:
            raise translate(error) from error
        finally:
            engine.close()
    else:
        raise ConfigError(f"{location.shown} has no schema to migrate.", hint="It is updated when it is opened.")


@contextmanager
def _of_server(location: StoreLocation) -> Iterator[Migrator]:
    try:
        import psycopg

        from perdure.store.databases.postgres import database
        from perdure.store.databases.postgres.migrator import PostgresMigrator
    except ImportError:
        raise missing_driver() from None
    try:
        with database.connect_direct(location.address) as db:
            yield PostgresMigrator(db)
    except psycopg.Error as error:
        raise database.translate(error) from error
