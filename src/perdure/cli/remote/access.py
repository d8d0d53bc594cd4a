"""How a command reads a service, and acts on it.

A command reads a store by a transaction. On a service it reads a mirror instead: the objects that its arguments name,
and those of its list. So every command prints the same as beside the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Concatenate, ParamSpec, TypeVar

import click

from perdure.cli.remote.listings import LISTINGS
from perdure.cli.remote.loader import MirrorLoader
from perdure.cli.remote.supported import command_name, refusal
from perdure.cli.shell import Shell
from perdure.client import audit
from perdure.client.client import connect
from perdure.client.remote_runtime import RemoteRuntime
from perdure.clock import SystemClock
from perdure.control.audit.report import AuditReport
from perdure.control.supervisor.overview import Overview
from perdure.domain.session import SessionRecord
from perdure.errors import PerdureError
from perdure.store.databases.sqlite.mirror import Mirror
from perdure.store.inspection.read_access import StoreReader
from perdure.store.move import StoreTransaction

T = TypeVar("T")
P = ParamSpec("P")
IDS = ("id", "session", "wait", "effect")  # parameters that name an object
FIRST_PATIENCE = 3.0  # seconds for a service that has not answered this command yet: its address may be wrong
LOOK = 0.2  # seconds between two looks at a session that is about to stop


class MirrorStore:
    """What a command uses of the store of a runtime: reads, on a mirror of what they name."""

    def __init__(self, runtime: RemoteRuntime) -> None:
        self._runtime = runtime
        self.clock = SystemClock()
        self.wakeups = SimpleNamespace(version=0, wait=lambda *_: asyncio.sleep(LOOK))

    async def read(self, query: Callable[Concatenate[StoreTransaction, P], T], *args: P.args, **named: P.kwargs) -> T:
        mirror = Mirror(self.clock)
        loader = MirrorLoader(self._runtime, mirror)
        of = named.get("of")  # the session of what is named
        for one in args:
            if isinstance(one, SessionRecord):
                await loader.session(one.uid)
            elif isinstance(one, str) and one:
                await load_named(loader, one, of if isinstance(of, str) else None)
        return query(mirror.read(), *args, **named)


async def load_named(loader: MirrorLoader, name: str, of: str | None = None) -> None:
    if of is not None:
        await loader.session(of)
    await loader.named(name, of)
    try:
        view = await loader.session(name)
    except PerdureError:
        return
    await loader.children(view.waits)


class CommandRuntime(RemoteRuntime):
    """A runtime over a service whose `store` can be read."""

    def __init__(self, runtime: RemoteRuntime, by: str) -> None:
        super().__init__(runtime.connection, by=by)
        self.store = MirrorStore(self)  # type: ignore[assignment]  # of a store, commands only read


def open_service(shell: Shell) -> CommandRuntime:
    found = connect(str(shell.store))
    assert isinstance(found, RemoteRuntime)
    found.connection.first_patience, found.connection.notice = FIRST_PATIENCE, shell.note
    return CommandRuntime(found, shell.by)


def run_on_service(shell: Shell, work: Callable[[CommandRuntime], Awaitable[T]]) -> T:
    """Connect to the service, and await `work`."""

    async def main() -> T:
        async with open_service(shell) as runtime:
            return await work(runtime)

    return asyncio.run(main())


def read_tree(shell: Shell) -> Overview:
    """The processes of the service's store."""
    return run_on_service(shell, lambda runtime: runtime.connection.read("/v1/tree", Overview))


def read_overview(shell: Shell) -> Overview:
    """Its processes, its queues, and the sessions that do not continue."""
    return run_on_service(shell, lambda runtime: runtime.connection.read("/v1/overview", Overview))


def read_report(shell: Shell, since: str, until: str | None) -> AuditReport:
    """The figures of the report of an audit."""
    return run_on_service(shell, lambda runtime: audit.report(runtime.connection, since, until))


@contextmanager
def inspect_service(shell: Shell) -> Iterator[StoreReader]:
    """A view of what the command reads."""
    context = click.get_current_context()
    name, given = command_name(context), dict(context.params)
    mirror = Mirror(clock := SystemClock())

    async def load(runtime: CommandRuntime) -> None:
        loader = MirrorLoader(runtime, mirror)
        if (listing := LISTINGS.get(name)) is not None:
            await listing(loader, runtime, given)
            return
        named = [str(given[key]) for key in IDS if given.get(key)]
        if not named:
            raise refusal(name)
        for one in named:
            await load_named(loader, one)

    run_on_service(shell, load)
    yield StoreReader(mirror.read(), clock)
