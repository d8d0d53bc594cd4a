"""Migration: bring the schema of a store up to date, without breaking a worker that still runs older code.

Steps that only add are applied while workers run. A step after which a running worker could no longer use the store is
postponed, and so are all steps after it; this code runs on the store meanwhile, if only contract steps are left.

Who is alive: on the machine of a worker its lock decides. On another machine that cannot be known: a worker counts as
alive for a day after it was last seen, and while it holds a lease that has not run out. A worker that was treated as
gone and is not loses nothing: its next write is refused with `SchemaMismatch`, and its sessions continue elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from perdure.clock import SECOND
from perdure.domain.worker import Liveness, WorkerRecord
from perdure.errors import ConfigError, IllegalMove, NotFound
from perdure.runtime.workers.liveness import WorkerLocks, locks_at
from perdure.store import migrate
from perdure.store.inspection import read_access
from perdure.store.upgrade import migrator

DAY = 86_400 * SECOND


class MigrationResult(msgspec.Struct, frozen=True):
    """The schema version before and after, and the newest one that this code knows.

    `waits_for` names the workers of older versions that must end before the rest can be applied. This code can use the
    store already. `rights_corrected`: nothing was to be applied, and the roles in the database had other rights than
    they should, for example because an earlier migration was killed.
    """

    place: str
    before: int
    after: int
    known: int
    waits_for: list[str] = []
    rights_corrected: bool = False


def migrate_store(target: str | None, migrations: list[migrate.Migration] | None = None) -> MigrationResult:
    """Migrate as far as running workers allow.

    Raises `IllegalMove`, which names them, if that is not far enough for this code.
    """
    place = read_access.locate_store(target)
    if place.kind in ("memory", "files"):
        raise ConfigError(f"{place.shown} needs no migration.", hint="It is migrated whenever it is opened.")
    with read_access.read_store(place) as found:
        properties = read_access.properties(found.tx)
        if not properties:
            raise NotFound(
                f"{place.shown} holds no Perdure store.", hint="The first use creates it with the newest schema."
            )
        locks = locks_at(place.folder, properties["store_id"], shared=place.kind == "postgres")
        holders = read_access.holders(found.tx)
        alive = [one for one in read_access.workers(found.tx) if may_be_alive(locks, one, found.tx.now, holders)]
    steps = migrate.load("postgres" if place.kind == "postgres" else "sqlite") if migrations is None else migrations
    before = int(properties["schema_version"])
    oldest = min((one.schema_to for one in alive), default=None)
    with migrator(place) as database:
        applied = migrate.migrate(database, steps, oldest_alive=oldest)
        after, _ = database.version()
        corrected = not applied and after <= len(steps) and _correct_rights(database)
    older = [one for one in alive if after < len(steps) and one.schema_to < steps[after].compatible_from]
    names = [f"{one.id} on {one.host}" for one in older]
    if after < migrate.needed(steps):
        raise _held_back(before, after, names)
    return MigrationResult(place.shown, before, after, len(steps), names, corrected)


def _correct_rights(database: migrate.Migrator) -> bool:
    database.lock()
    try:
        return database.correct_rights()
    finally:
        database.unlock()


def may_be_alive(locks: WorkerLocks, one: WorkerRecord, now: int, holders: Collection[str] = ()) -> bool:
    """Whether a worker may still use the store; `holders` are the ids of workers that hold a lease."""
    life = locks.life(one)
    return life is Liveness.ALIVE or (life is Liveness.CANNOT_TELL and (now - one.seen_at < DAY or one.id in holders))


def _held_back(before: int, after: int, names: list[str]) -> IllegalMove:
    return IllegalMove(
        f"The schema was migrated from version {before} to {after} only: the next step would break {', '.join(names)}.",
        hint="Upgrade or stop those workers, then run `perdure migrate` again.",
        before=before,
        after=after,
    )
