"""How a command reaches the store: to read what is there, or to act on it. Neither makes a store that was not there.

Who has a session now, whether that process may be alive, and what that means for somebody else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from perdure.cli.shell import Shell
from perdure.errors import NotFound, SchemaMismatch

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime
    from perdure.store.inspection.read_access import StoreReader
    from perdure.store.move import StoreTransaction

T = TypeVar("T")


@contextmanager
def read_store(shell: Shell) -> Iterator[StoreTransaction]:
    """One moment of a store that exists. Nothing is created, migrated or locked."""
    with inspect_store(shell) as found:
        yield found.tx


@contextmanager
def inspect_store(shell: Shell) -> Iterator[StoreReader]:
    """The same, with what is known from beside the store."""
    from perdure.store import migrate
    from perdure.store.inspection import read_access

    place = read_access.locate_store(shell.store)
    with read_access.read_store(place) as found:
        properties = read_access.properties(found.tx)
        if not properties:
            raise NotFound(f"{place.shown} holds no Perdure store.", hint="The first session makes it.")
        version, compatible = int(properties["schema_version"]), int(properties["compatible_from"])
        known = len(migrate.load("postgres" if place.kind == "postgres" else "sqlite"))
        migrate.check(version, compatible, known)
        if version < known:
            raise SchemaMismatch(
                f"The store has schema {version}, and this version of Perdure reads {known}.",
                hint=f"Run `{shell.suggest('migrate')}`.",
            )
        yield found


def run_with_runtime(shell: Shell, work: Callable[[Runtime], Awaitable[T]], *, create: bool = False) -> T:
    """Do something with the runtime over the store, which must be there unless it may be created."""
    import asyncio

    from perdure.runtime.runtime import open as open_runtime

    if not create:
        with read_store(shell):
            pass

    async def act() -> T:
        artifacts = shell.settings.get("artifacts")
        async with open_runtime(
            shell.store, by=shell.by, connections=shell.connections, artifacts=artifacts
        ) as runtime:
            return await work(runtime)

    return asyncio.run(act())


if TYPE_CHECKING:
    from perdure.domain.session import SessionRecord
    from perdure.runtime.workers.liveness import WorkerLocks
    from perdure.store.move import StoreTransaction


def presences(shell: Shell, tx: StoreTransaction) -> WorkerLocks:
    """The locks of the store's workers, to ask and not to take one."""
    from perdure.runtime.workers.liveness import locks_at
    from perdure.store.inspection import read_access

    place = read_access.locate_store(shell.store)
    return locks_at(place.folder, read_access.properties(tx)["store_id"], shared=place.kind == "postgres")


def describe_holder(tx: StoreTransaction, locks: WorkerLocks, found: SessionRecord) -> tuple[bool, str]:
    """Whether somebody who may be alive has the session, and what that means for going on."""
    from perdure.cli.text.plain import safe, span

    holder, left = found.lease_holder or "", (found.lease_until or 0) - tx.now
    if _is_dead(tx, locks, holder):
        return False, f"Its worker {safe(holder)} was found dead; the session can be taken over."
    if left < 0:
        return False, f"Its worker {safe(holder)} has been silent for {span(-left)}; the session can be taken over."
    return True, f"{safe(holder)} has it now, for {span(left)} more unless it renews; until then nobody else can go on."


def describe_lease(tx: StoreTransaction, shell: Shell, uid: str, *, wanted: bool) -> tuple[bool, str]:
    """The same for somebody who watches, or wants it: who has it, where, and since when."""
    from perdure.cli.text.plain import safe, span
    from perdure.store.moves import event, session

    found = session.get(tx, uid)
    if found.lease_holder is None:
        return True, ""  # nobody has it any more; whoever watches sees why
    alive, said = describe_holder(tx, presences(shell, tx), found)
    if not alive:
        return False, said
    holder = found.lease_holder
    id, _, where = holder.partition("@")
    host, _, pid = where.rpartition(":")
    number = max(event.newest_of(tx, uid, kind) for kind in ("lease.acquired", "lease.taken_over"))
    begun = event.after(tx, uid, number - 1, limit=1)
    since = f" since {span(tx.now - begun[0].at)}" if number and begun else ""
    who = f"{safe(id)} on {safe(host)}, process {safe(pid)}," if where else safe(holder)
    why = f" It may be alive, so nobody can take it over before {span((found.lease_until or 0) - tx.now)} of silence."
    return True, f"{who} has had it{since}.{why if wanted else ''} Watching goes on."


def _is_dead(tx: StoreTransaction, locks: WorkerLocks, holder: str) -> bool:
    from perdure.domain.worker import Liveness
    from perdure.store.inspection import read_access

    known = [one for one in read_access.workers(tx) if one.id == holder.split("@", 1)[0]]
    return bool(known) and locks.life(known[0]) is Liveness.DEAD
