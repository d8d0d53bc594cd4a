"""Migrations: numbered SQL files, applied once, in order, by one process at a time.

The first lines of a file declare:

    -- phase: expand | contract    expand only adds; contract removes what no running version reads any more
    -- compatible_from: N          the oldest schema version whose code can still use the store afterwards

`NNNN_name.sql` is for both databases; `NNNN_name.sqlite.sql` and `NNNN_name.postgres.sql`, where they exist, follow it
in the same transaction. A file `NNNN_name.backfill.sql` holds one statement, run in small batches, each a transaction
of its own, until it changes nothing more; the version rises only then, so a crash in the middle starts it again. The
columns it fills were added by an earlier number: a migration with a backfill has no other statement, because a restart
would run that twice.

Order of writes: lock, read the version, (SQLite) back up, one transaction for each migration with the version in it.
A crash leaves the store at one version, complete. A store newer than this code is refused unless it declares that it is
compatible; an older one is migrated.

Views (`views.sql`) belong to the code and not to a number. Each migration removes them first, and makes them again once
the schema is new enough for this code, in its own transaction: a view never stands in the way of a migration.

Live migration. Code runs on every schema from the last expand step that it knows: a contract step after it removes what
only older code reads. So new workers can start beside old ones, and the contract step is applied when no old worker is
left: by `perdure migrate`, by the next process that opens a SQLite file, or by the housekeeping of a running process.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

import msgspec

from perdure import faults
from perdure.errors import ConfigError, SchemaMismatch
from perdure.ids import new_uid
from perdure.store.statements import expand

_FILE = re.compile(r"(\d{4})_([a-z_]+)(?:\.(sqlite|postgres|backfill))?\.sql\Z")
_PHASE = re.compile(r"^-- phase: (expand|contract)$", re.MULTILINE)
_VIEW = re.compile(r"exists (perdure_[a-z_]+);")
_AS_TIME = re.compile(r"\{time:((?:[a-z_]+\.)?([a-z_]+))\}")
_AS_DAY = re.compile(r"\{day:([a-z_.]+)\}")
TIME = {
    "sqlite": r"strftime('%Y-%m-%d %H:%M:%f', \1 / 1000000.0, 'unixepoch') as \2",
    "postgres": r"to_timestamp(\1 / 1000000.0) as \2",
}
DAY = {
    "sqlite": r"strftime('%Y-%m-%d', \1 / 1000000, 'unixepoch')",
    "postgres": r"to_char(to_timestamp(\1 / 1000000) at time zone 'UTC', 'YYYY-MM-DD')",
}
_COMPATIBLE = re.compile(r"^-- compatible_from: (\d+)$", re.MULTILINE)


class Migration(msgspec.Struct, frozen=True):
    """One numbered change of the schema, in the dialect of the given database."""

    number: int
    name: str
    phase: str
    compatible_from: int
    scripts: tuple[str, ...]
    backfill: str | None


class Migrator(ABC):
    """The interface that a database needs for migrations."""

    dialect: str

    @abstractmethod
    def version(self) -> tuple[int, int]:
        """The schema version and what it is compatible from; (0, 0) for an empty database."""

    @abstractmethod
    def lock(self) -> None:
        """Keep other migrators out until `unlock`."""

    @abstractmethod
    def unlock(self) -> None: ...

    @abstractmethod
    def back_up(self, version: int) -> None:
        """Back up the database, where the store is responsible for that."""

    @abstractmethod
    def apply(self, scripts: Iterable[str], properties: Mapping[str, str]) -> None:
        """Run scripts and set properties of the store, in one transaction."""

    def give_rights(self, prefix: str | None = None) -> None:  # noqa: B027 - only PostgreSQL has roles
        """Give the roles of the database their rights on every table, if it has roles."""

    def correct_rights(self) -> bool:
        """Give the roles their rights if they differ: a process may be killed after a migration and before that."""
        return False

    @abstractmethod
    def batch(self, statement: str) -> int:
        """Run one batch of a backfill in a transaction; return how many rows it changed."""


def load(dialect: str, folder: Traversable | None = None) -> list[Migration]:
    """The migrations of this code, in order."""
    folder = folder or resources.files("perdure.store").joinpath("migrations")
    texts: dict[tuple[int, str], dict[str, str]] = {}
    for file in folder.iterdir():
        if match := _FILE.match(file.name):
            texts.setdefault((int(match[1]), match[2]), {})[match[3] or "both"] = file.read_text(encoding="utf-8")
    migrations: list[Migration] = []
    for place, ((number, name), parts) in enumerate(sorted(texts.items()), 1):
        phase, compatible = _PHASE.search(parts.get("both", "")), _COMPATIBLE.search(parts.get("both", ""))
        if number != place or phase is None or compatible is None:
            raise ConfigError(f"Migration {number:04}_{name} is out of order, or does not declare its phase.")
        scripts = tuple(expand(parts[part], dialect) for part in ("both", dialect) if part in parts)
        backfill = expand(parts["backfill"], dialect) if "backfill" in parts else None
        if backfill is not None and any(map(_has_statement, scripts)):
            raise ConfigError(f"Migration {number:04}_{name} is a backfill; other statements need an earlier number.")
        migrations.append(Migration(number, name, phase[1], int(compatible[1]), scripts, backfill))
    gone, made = views(dialect, folder)
    enough = needed(migrations)
    return [with_views(one, gone, made if one.number >= enough else "") for one in migrations]


def with_views(one: Migration, gone: str, made: str) -> Migration:
    """A migration that removes the views first, and makes them again if this code can use its schema."""
    if not gone or one.backfill is not None:
        return one
    return msgspec.structs.replace(one, scripts=(gone, *one.scripts, *([made] if made else [])))


def views(dialect: str, folder: Traversable | None = None) -> tuple[str, str]:
    """The statements that remove the views, and those that make them, in the dialect of the given database."""
    file = (folder or resources.files("perdure.store").joinpath("migrations")).joinpath("views.sql")
    if not file.is_file():
        return "", ""
    text = _AS_DAY.sub(DAY[dialect], _AS_TIME.sub(TIME[dialect], file.read_text(encoding="utf-8")))
    gone, _, made = expand(text, dialect).partition("-- made\n")
    return gone, made


def view_names() -> list[str]:
    """The names of the views, in the order in which they are made."""
    return _VIEW.findall(views("sqlite")[0])[::-1]


@cache
def known() -> int:
    """The newest schema version of this code."""
    return len(load("sqlite"))


def needed(migrations: list[Migration]) -> int:
    """The oldest schema version that this code can use: contract steps after it remove what only older code reads."""
    return max((one.number for one in migrations if one.phase == "expand"), default=0)


def _has_statement(script: str) -> bool:
    return any(line.strip() and not line.lstrip().startswith("--") for line in script.splitlines())


def check(version: int, compatible_from: int, known: int) -> None:
    """Refuse a store whose schema is too new for this code."""
    if version > known and compatible_from > known:
        raise SchemaMismatch(
            f"The store has schema {version}, which needs Perdure with schema {compatible_from}; this one has {known}.",
            hint="Upgrade Perdure on this machine.",
        )


def migrate(database: Migrator, migrations: list[Migration], *, oldest_alive: int | None = None) -> list[int]:
    """Bring the database up to date and return the versions applied.

    `oldest_alive` is the lowest schema version that a running worker needs; a migration that would break it is not
    applied, nor is any after it.
    """
    known = len(migrations)
    version, compatible_from = database.version()
    check(version, compatible_from, known)
    if version >= known:
        return []
    database.lock()
    try:
        return _apply_all(database, migrations, oldest_alive)
    finally:
        database.unlock()


def _apply_all(database: Migrator, migrations: list[Migration], oldest_alive: int | None) -> list[int]:
    version, _ = database.version()  # again, now that no other process can change it
    applied: list[int] = []
    for migration in migrations[version:]:
        if oldest_alive is not None and migration.compatible_from > oldest_alive:
            break
        if version and not applied:
            database.back_up(version)
        faults.point("migrate.before")
        _apply(database, migration)
        applied.append(migration.number)
    if version and applied:
        database.give_rights()
    return applied


def _apply(database: Migrator, migration: Migration) -> None:
    properties = {"schema_version": str(migration.number), "compatible_from": str(migration.compatible_from)}
    if migration.number == 1:
        properties |= {"store_id": new_uid(), "restore_epoch": "0"}
    if migration.backfill is None:
        database.apply(migration.scripts, properties)
        return
    while database.batch(migration.backfill):
        pass
    database.apply((), properties)
