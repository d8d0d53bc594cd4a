"""The substrates on which Perdure itself runs: the same program with another address of the store."""

from __future__ import annotations

from pathlib import Path

import apsw

from perdure.errors import ConfigError
from perdure.evaluation import services

SQLITE, POSTGRES, FILES, BLOB = "sqlite", "postgres", "files", "blob"


def store_address(substrate: str, folder: Path) -> str:
    """The address of a new store. Raises `ConfigError` if this machine cannot run the substrate."""
    match substrate:
        case "sqlite":
            return str(folder / "store.db")
        case "files":
            return f"files:{folder / 'files'}"
        case "postgres":
            return services.postgres().create_database()
    raise ConfigError(f"{substrate} is not a substrate of Perdure.")


def drop(address: str) -> None:
    """Remove a database of the shared server, after its raw files were written."""
    if address.startswith("postgresql:"):
        services.postgres().drop_database(address)


def versions_of(substrate: str) -> dict[str, str]:
    """The version of the database below."""
    if substrate in (SQLITE, FILES):
        return {"sqlite": apsw.sqlite_lib_version()}
    if substrate == POSTGRES:
        import psycopg

        with psycopg.connect(services.postgres().url) as db:
            return {"postgres": db.execute("show server_version").fetchone()[0]}  # type: ignore[index]
    return {}
