"""The store that an older Perdure left, with schema 7: a SQLite file, the same in PostgreSQL, or logs of text files.

`tools/older_store.py` recorded it; its rows are never edited.
"""

from __future__ import annotations

import gzip
from importlib import resources
from pathlib import Path

import msgspec

from perdure.clock import SystemClock
from perdure.store import migrate
from perdure.store.databases.files.database import FilesDatabase
from perdure.store.databases.files.journal import read_lines
from perdure.store.inspection.read_access import locate_store
from perdure.store.upgrade import migrator

SCHEMA = 7
FILES = "files:"
OWN = ("meta", "event_kind", "wait_kind")  # the migrations fill these


def put_older_store(address: str) -> None:
    """Make the older store at an address: it has schema 7 and sessions that wait."""
    if address.startswith("postgresql:"):
        _put_rows(address)
    elif address.startswith(FILES):
        for name, text in msgspec.json.decode(gzip.decompress(_recorded("older_store.files.gz"))).items():
            path = Path(address.removeprefix(FILES), name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    else:
        Path(address).write_bytes(gzip.decompress(_recorded("older_store.sqlite.gz")))


def schema_of(address: str) -> int:
    """The schema version of a store, whatever it is. The logs of text files are read, and not opened."""
    if address.startswith(FILES):
        lines, _, _ = read_lines(Path(address.removeprefix(FILES), "store.jsonl"))
        rows = [row for line in lines for row in line.rows if row[1] == "meta" and row[2]["key"] == "schema_version"]
        return int((rows[-1][3] if rows[-1][0] == "update" else rows[-1][2])["value"])
    with migrator(locate_store(address)) as database:
        return database.version()[0]


def migrate_store(address: str) -> None:
    """Bring the store to the schema of this Perdure, as `perdure migrate` does. Opening text files does it."""
    if address.startswith(FILES):
        FilesDatabase(Path(address.removeprefix(FILES)), SystemClock()).close()
        return
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
