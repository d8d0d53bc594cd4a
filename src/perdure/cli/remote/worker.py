"""`perdure worker` on a service: a worker without rights to the database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from perdure.cli.remote.supported import check_here
from perdure.cli.shell import Shell
from perdure.cli.store_access import announced_settings
from perdure.client.client import INSTALL, MISSING
from perdure.errors import ConfigError
from perdure.runtime.runtime import LEASE, Runtime


def refuse_on_service(shell: Shell, id: str | None, options: Mapping[str, Any]) -> None:
    """Refuse what needs the processes or the rows of the store itself."""
    if id is not None:
        raise ConfigError("A worker on a service is not for one session.", hint="Leave out the id.")
    if options["isolate"]:
        check_here(shell, "worker --isolate")


def run_remote_worker(shell: Shell, work: Callable[[Runtime], Awaitable[int]]) -> int:
    """Connect to the service as a worker, and await `work`."""
    try:
        from perdure.client.worker.runtime import open_worker_runtime
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise ConfigError(MISSING, hint=INSTALL) from None

    async def main() -> int:
        settings = shell.settings
        runtime = open_worker_runtime(
            str(shell.store), lease=settings.get("lease", LEASE), artifacts=settings.get("artifacts"),
            notice=shell.note,
        )  # fmt: skip
        async with runtime:
            runtime.worker_about |= announced_settings(shell) | {"parent": None}
            return await work(runtime)

    return asyncio.run(main())
