"""How a command reaches the store: to read it, or to act on it. A store is created only on request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from perdure.cli.shell import Shell
from perdure.cli.text.plain import safe
from perdure.clock import span
from perdure.config import is_service
from perdure.domain.effect import Effect
from perdure.domain.session import SessionRecord
from perdure.domain.worker import Liveness
from perdure.errors import NotFound, SchemaMismatch
from perdure.store import migrate
from perdure.store.inspection import read_access
from perdure.store.move import StoreTransaction
from perdure.store.moves import access, event, session

if TYPE_CHECKING:  # `ls` and `show` must start fast, and do without the runtime
    from asyncio import AbstractEventLoop

    from perdure.runtime.runtime import Runtime
    from perdure.runtime.workers.liveness import WorkerLocks

T = TypeVar("T")
LoopFactory = Callable[[], "AbstractEventLoop"]
MANY = 1_000_000


@contextmanager
def read_store(shell: Shell) -> Iterator[StoreTransaction]:
    """A consistent view of a store that exists. Nothing is created, migrated or locked."""
    with inspect_store(shell) as found:
        yield found.tx


@contextmanager
def read_logged(
    shell: Shell, action: str, find: Callable[[StoreTransaction], tuple[str | None, str | None]]
) -> Iterator[StoreTransaction]:
    """The same, for what the policy may log: `find` tells the session and what of it is read.

    The store is closed before the read is logged, because a store of text files is open in one process only.
    """
    with read_store(shell) as tx:
        if not access.is_logged(tx, action):
            yield tx
            return
        uid, subject = find(tx)
    run_with_runtime(shell, lambda runtime: runtime.store.write(access.note(action, uid, subject=subject)))
    with read_store(shell) as tx:
        yield tx


def transcript_of(id: str) -> Callable[[StoreTransaction], tuple[str | None, str | None]]:
    """The session whose transcript is read."""
    return lambda tx: (session.find(tx, id).uid, None)


@contextmanager
def inspect_store(shell: Shell) -> Iterator[read_access.StoreReader]:
    """The same, with what is known from outside the store."""
    if is_service(shell.store):
        from perdure.cli.remote.access import inspect_service

        with inspect_service(shell) as mirrored:
            yield mirrored
        return
    place = read_access.locate_store(shell.store)
    with read_access.read_store(place) as found:
        properties = read_access.properties(found.tx)
        if not properties:
            raise NotFound(f"{place.shown} holds no Perdure store.", hint=read_access.ABSENT)
        version, compatible = int(properties["schema_version"]), int(properties["compatible_from"])
        steps = migrate.load("postgres" if place.kind == "postgres" else "sqlite")
        migrate.check(version, compatible, len(steps))
        if version < migrate.needed(steps):
            raise SchemaMismatch(
                f"The store has schema {version}, but this version of Perdure needs schema {migrate.needed(steps)}.",
                hint=f"Run `{shell.suggest('migrate')}`.",
            )
        yield found


def run_with_runtime(
    shell: Shell, work: Callable[[Runtime], Awaitable[T]], *, create: bool = False, loop: LoopFactory | None = None
) -> T:
    """Open the store with a runtime, and await `work`.

    Without `create` the store is inspected first, because opening would create it and migrate it.
    """
    import asyncio

    from perdure.runtime.runtime import LEASE
    from perdure.runtime.runtime import open as open_runtime

    if shell.run_inside is not None:
        return cast(T, shell.run_inside(work))
    if is_service(shell.store):
        from perdure.cli.remote.access import run_on_service

        return run_on_service(shell, work)
    if not create:
        with read_store(shell):
            pass

    async def main() -> T:
        artifacts, lease = shell.settings.get("artifacts"), shell.settings.get("lease", LEASE)
        async with open_runtime(
            shell.store,
            by=shell.by,
            connections=shell.connections,
            artifacts=artifacts,
            lease=lease,
            notifications=shell.settings.get("notifications"),
        ) as runtime:
            runtime.worker_about |= announced_settings(shell)
            return await work(runtime)

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main())


def read_list(
    shell: Shell,
    local: Callable[[StoreTransaction], list[T]],
    remote: Callable[[Runtime], AsyncIterator[T]],
    most: int | None = None,
) -> tuple[list[T], int]:
    """A list of records and the time, of the store or of a service."""
    if not is_service(shell.store):
        with read_store(shell) as tx:
            return local(tx), tx.now

    async def work(runtime: Runtime) -> tuple[list[T], int]:
        from perdure.cli.remote.loader import first

        return await first(remote(runtime), most or MANY), runtime.store.clock.now()

    return run_with_runtime(shell, work)


def announced_settings(shell: Shell) -> dict[str, Any]:
    """The settings that this process announces as a worker."""
    version, workspace = shell.settings.get("code_version"), shell.settings.get("workspace")
    return ({"code_version": version} if version else {}) | ({"workspaces": [workspace]} if workspace else {})


def load_arguments(shell: Shell, effect: Effect) -> Effect:
    """An effect with its arguments, which are in the artifact folder when they are large; a service has added them."""
    if is_service(shell.store):
        return effect
    from perdure.runtime.run.large_values import folder_of, opened

    return opened(effect, folder_of(read_access.locate_store(shell.store).folder, shell.settings.get("artifacts")))


def worker_locks(shell: Shell, tx: StoreTransaction) -> WorkerLocks:
    """The locks of the store's workers, to test and not to take."""
    from perdure.runtime.workers.liveness import locks_at

    place = read_access.locate_store(shell.store)
    return locks_at(place.folder, read_access.properties(tx)["store_id"], shared=place.kind == "postgres")


def describe_holder(tx: StoreTransaction, shell: Shell, found: SessionRecord) -> tuple[bool, str]:
    """Whether the lease holder of a session may be alive, and whether the session can be taken over."""
    holder, left = found.lease_holder or "", (found.lease_until or 0) - tx.now
    if _dead(tx, worker_locks(shell, tx), [holder]):
        return False, f"Its worker {safe(holder)} is dead. The session can be taken over."
    if left < 0:
        silent = span(-left)
        return (
            False,
            f"Its worker {safe(holder)} has not renewed its lease for {silent}. The session can be taken over.",
        )
    return True, f"{safe(holder)} holds it. Its lease ends in {span(left)} unless it is renewed."


def describe_lease(tx: StoreTransaction, shell: Shell, uid: str, *, wanted: bool) -> tuple[bool, str]:
    """The same for a user who watches the session: who holds it, where, and since when.

    With `wanted`, the user asked to take it over, and the text explains why that is not possible yet.
    """
    found = session.get(tx, uid)
    if found.lease_holder is None:
        return True, ""  # it was released; the next events show why
    alive, text = describe_holder(tx, shell, found)
    if not alive:
        return False, text
    holder = found.lease_holder
    id, _, where = holder.partition("@")
    host, _, pid = where.rpartition(":")
    number = max(event.newest_of(tx, uid, kind) for kind in ("lease.acquired", "lease.taken_over"))
    started = event.after(tx, uid, number - 1, limit=1)
    since = f" for {span(tx.now - started[0].at)}" if number and started else ""
    who = f"{safe(id)} on {safe(host)}, process {safe(pid)}," if where else safe(holder)
    left = span((found.lease_until or 0) - tx.now)
    why = f" It may be alive, so the session can be taken over only after it has been silent for {left}."
    return True, f"{who} has held it{since}.{why if wanted else ''} Still watching."


def lost_sessions(tx: StoreTransaction, shell: Shell, found: Iterable[SessionRecord]) -> set[str]:
    """The uids of running sessions whose process on this machine has died. No one else can tell that for sure."""
    if is_service(shell.store):
        return set()  # its processes are on another machine
    running = {one.uid: one.lease_holder for one in found if one.status == "running" and one.lease_holder is not None}
    dead = _dead(tx, worker_locks(shell, tx), set(running.values())) if running else set()
    return {uid for uid, holder in running.items() if holder in dead}


def _dead(tx: StoreTransaction, locks: WorkerLocks, holders: Collection[str]) -> set[str]:
    """Those holders whose processes are known to have died."""
    rows = {one.id: one for one in read_access.workers(tx)}
    known = ((holder, rows.get(holder.split("@", 1)[0])) for holder in holders)
    return {holder for holder, row in known if row is not None and locks.life(row) is Liveness.DEAD}
