"""How a command reaches the store: to read what is there, or to act on it. Neither makes a store that was not there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from perdure.cli.command import Shell
from perdure.errors import NotFound, SchemaMismatch

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime
    from perdure.store.doctor import Look
    from perdure.store.move import Transaction

T = TypeVar("T")


@contextmanager
def reading(shell: Shell) -> Iterator[Transaction]:
    """One moment of a store that exists. Nothing is created, migrated or locked."""
    with looking(shell) as found:
        yield found.tx


@contextmanager
def looking(shell: Shell) -> Iterator[Look]:
    """The same, with what is known from beside the store."""
    from perdure.store import doctor, migrate

    place = doctor.place_of(shell.store)
    with doctor.look(place) as found:
        properties = doctor.properties(found.tx)
        if not properties:
            raise NotFound(f"{place.shown} holds no Perdure store.", hint="The first session makes it.")
        version, compatible = int(properties["schema_version"]), int(properties["compatible_from"])
        known = len(migrate.load("postgres" if place.kind == "postgres" else "sqlite"))
        migrate.check(version, compatible, known)
        if version < known:
            raise SchemaMismatch(
                f"The store has schema {version}, and this version of Perdure reads {known}.",
                hint=f"Run `{shell.again('migrate')}`.",
            )
        yield found


def acting(shell: Shell, work: Callable[[Runtime], Awaitable[T]], *, create: bool = False) -> T:
    """Do something with the runtime over the store, which must be there unless it may be created."""
    import asyncio

    from perdure.runtime.runtime import open as open_runtime

    if not create:
        with reading(shell):
            pass

    async def act() -> T:
        artifacts = shell.settings.get("artifacts")
        async with open_runtime(
            shell.store, by=shell.by, connections=shell.connections, artifacts=artifacts
        ) as runtime:
            return await work(runtime)

    return asyncio.run(act())
