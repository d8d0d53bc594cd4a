"""The store that an older Perdure left, with schema 7, as a SQLite file or in a database of PostgreSQL.

`tools/older_store.py` recorded it; its rows are never edited.
"""

from __future__ import annotations

import gzip
from importlib import resources
from pathlib import Path

import msgspec

from perdure.store import migrate
from perdure.store.inspection.read_access import locate_store
from perdure.store.upgrade import migrator

SCHEMA = 7
OWN = ("meta", "event_kind", "wait_kind")  # the migrations fill these


def put_older_store(address: str) -> None:
    """Make the older store at an address: it has schema 7 and sessions that wait."""
    if address.startswith("postgresql:"):
        _put_rows(address)
    else:
        Path(address).write_bytes(gzip.decompress(_recorded("older_store.sqlite.gz")))


def schema_of(address: str) -> int:
    """The schema version of a store, whatever it is."""
    with migrator(locate_store(address)) as database:
        return database.version()[0]


def migrate_store(address: str) -> None:
    """Bring the store to the schema of this Perdure, as `perdure migrate` does."""
    with migrator(locate_store(address)) as database:
        migrate.migrate(database, migrate.load(database.dialect))


def _put_rows(address: str) -> None:
    import psycopg
    from psycopg import sql

    with migrator(locate_store(address)) as database:
        migrate.migrate(database, migrate.load("postgres")[:SCHEMA])
    with psycopg.connect(address) as db:
        db.execute("set session_replication_role = replica")  # the rows are complete already; no trigger adds to them
        for line in gzip.decompress(_recorded("older_store.rows.gz")).splitlines():
            found = msgspec.json.decode(line)
            if found["table"] in OWN:
                continue
            columns = sql.SQL(", ").join(map(sql.Identifier, found["columns"]))
            statement = sql.SQL("copy {} ({}) from stdin").format(sql.Identifier(found["table"]), columns)
            with db.cursor().copy(statement) as copy:
                for row in found["rows"]:
                    copy.write_row(row)


def _recorded(name: str) -> bytes:
    return resources.files("perdure.evaluation.interrupt").joinpath(name).read_bytes()
