"""A supervisor with a store: it registers itself, records its tree, and frees the sessions of workers that have ended.

The supervisor knows that a worker has ended because it has reaped it. That ends the worker's right to move its sessions
(the leases); whether an act that it dispatched has ended is decided by its presence lock, in recovery. A command that
the worker started may still run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import msgspec

from perdure.control.supervisor.notification import ManagerNotifier
from perdure.control.supervisor.specification import GroupSpec
from perdure.control.supervisor.state import TreeState
from perdure.control.supervisor.supervisor import ChildReport, Supervisor
from perdure.errors import StoreError
from perdure.runtime.run.session_lease import free_holder
from perdure.runtime.runtime import Runtime
from perdure.store.moves import worker as worker_rows

logger = logging.getLogger(__name__)
AGAIN = 1.0  # seconds until the store is tried again


class StoreSupervisor:
    """Runs a tree of processes for the store of `runtime`."""

    def __init__(
        self, runtime: Runtime, tree: GroupSpec, *, environment: Mapping[str, str], notifier: ManagerNotifier
    ) -> None:
        self._runtime = runtime
        self.supervisor = Supervisor(
            tree, runtime.store.clock,
            environment=environment, notifier=notifier, changed=self._record, worker_ended=self._free,
        )  # fmt: skip

    async def run(self) -> TreeState:
        seen = asyncio.ensure_future(self._runtime.worker.keep_seen())
        try:
            return await self.supervisor.run()
        finally:
            seen.cancel()

    async def _record(self, report: ChildReport) -> None:
        try:
            await self._runtime.store.write(worker_rows.set_tree(self._runtime.worker.id, msgspec.to_builtins(report)))
        except StoreError as error:
            logger.info("The tree is not recorded now [%s].", error.code)

    async def _free(self, worker: str, because: str) -> None:
        """Make the sessions of a worker that has ended ready, however long the store is unavailable."""
        while True:
            try:
                await free_holder(self._runtime.store, worker, because, by=self._runtime.worker.name)
                return
            except StoreError as error:
                logger.info("The sessions of %s cannot be freed yet [%s].", worker, error.code)
                await asyncio.sleep(AGAIN)
