"""A supervisor with a store: it registers itself, records its tree, and frees the sessions of workers that have ended.

The supervisor knows that a worker has ended because it has reaped it. That ends the worker's right to move its sessions
(the leases); whether an act that it dispatched has ended is decided by its presence lock, in recovery. A command that
the worker started may still run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

from perdure.control.supervisor.notification import ManagerNotifier
from perdure.control.supervisor.specification import GroupSpec
from perdure.control.supervisor.state import TreeState
from perdure.control.supervisor.supervisor import ChildReport, Supervisor
from perdure.errors import StoreError
from perdure.runtime.runtime import Runtime
from perdure.store.moves import worker as worker_rows

logger = logging.getLogger(__name__)


class StoreSupervisor:
    """Runs a tree of processes for the store of `runtime`."""

    def __init__(
        self, runtime: Runtime, tree: GroupSpec, *, environment: Mapping[str, str], notifier: ManagerNotifier
    ) -> None:
        self._runtime = runtime
        self.supervisor = Supervisor(
            tree, runtime.store.clock,
            environment=environment, notifier=notifier, changed=self._record,
        )  # fmt: skip

    async def run(self) -> TreeState:
        return await self.supervisor.run()

    async def _record(self, report: ChildReport) -> None:
        try:
            await self._runtime.store.write(worker_rows.set_tree(self._runtime.worker.id, msgspec.to_builtins(report)))
        except StoreError as error:
            logger.info("The tree is not recorded now [%s].", error.code)
