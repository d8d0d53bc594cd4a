"""A supervisor with a store: it registers itself, records its tree, and frees the sessions of workers that have ended.

The supervisor knows that a worker has ended because it has reaped it. That ends the worker's right to move its sessions
(the leases); whether an act that it dispatched has ended is decided by its presence lock, in recovery. A command that
the worker started may still run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from perdure.control.supervisor.notification import ManagerNotifier
from perdure.control.supervisor.specification import GroupSpec
from perdure.control.supervisor.state import TreeState
from perdure.control.supervisor.supervisor import ChildReport, Supervisor
from perdure.errors import StoreFull, StoreUnavailable
from perdure.runtime.run.session_lease import free_holder
from perdure.runtime.runtime import LAST_PATIENCE, Runtime

logger = logging.getLogger(__name__)
AGAIN = 1.0  # seconds until the store is tried again


class StoreSupervisor:
    """Runs a tree of processes for the store of `runtime`."""

    def __init__(
        self, runtime: Runtime, tree: GroupSpec, *, environment: Mapping[str, str], notifier: ManagerNotifier
    ) -> None:
        self._runtime = runtime
        self._is_over = False
        self.supervisor = Supervisor(
            tree, runtime.store.clock,
            environment=environment, notifier=notifier, changed=self._record, worker_ended=self.report_end,
            all_ended=self._end,
        )  # fmt: skip

    async def run(self) -> TreeState:
        seen = asyncio.ensure_future(self._runtime.worker.keep_seen())
        try:
            return await self.supervisor.run()
        finally:
            seen.cancel()

    def _end(self) -> None:
        """Every process has ended: what cannot be written soon is found out by the next supervisor or worker."""
        self._is_over = True
        self._runtime.store.limit_patience(LAST_PATIENCE)

    async def _record(self, report: ChildReport) -> None:
        await self._write("The tree", lambda: self._put_tree(report))

    async def _put_tree(self, report: ChildReport) -> None:
        await self._runtime.worker.set_tree(msgspec.to_builtins(report))

    async def report_end(self, worker: str, because: str) -> None:
        """Make the sessions of a worker that has ended ready."""
        await self._write(f"The end of {worker}", lambda: self._free_sessions(worker, because))

    async def _free_sessions(self, worker: str, because: str) -> None:
        await free_holder(self._runtime.store, worker, because, by=self._runtime.worker.name)

    async def _write(self, what: str, write: Callable[[], Awaitable[None]]) -> None:
        """Write, however long the store is unavailable while processes run. Another error is logged: it must not end
        the supervisor."""
        while True:
            try:
                await write()
                return
            except (StoreUnavailable, StoreFull) as error:
                logger.info("%s cannot be recorded yet [%s].", what, error.code)
                if self._is_over:
                    return
                await asyncio.sleep(AGAIN)
            except Exception:
                logger.exception("%s could not be recorded.", what)
                return
