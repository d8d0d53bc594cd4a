"""Sessions that wait for code, a policy or a workspace: they are woken by a worker that has it.

All of them are searched for when a worker starts and when code is loaded or removed in its process. So are, every time,
those that wait for the store's policy: a thaw or a new version wakes every worker. Of the others, in between, the
oldest are looked at when another worker has parked one, and once in `AGAIN` seconds. A session that was handed back is
offered to each version of the code once: its wait names the versions that were tried.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from perdure.domain.wait import Wait, WaitKind
from perdure.errors import PerdureError
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.definitions.tool import TOOLS
from perdure.runtime.deploy.code_version import meets
from perdure.runtime.deploy.workspace import waits_met_here
from perdure.runtime.policy.active_policy import STORE
from perdure.runtime.policy.budgets import waits_within_budget
from perdure.runtime.policy.policy_wait import waits_for_policy
from perdure.runtime.runtime import Runtime
from perdure.store.move import StoreTransaction
from perdure.store.moves import session, wait
from perdure.store.topics import WORKERS

logger = logging.getLogger(__name__)
AGAIN = 300.0  # seconds: a wake-up that was lost costs no more
FEW = 1000


class MissingCode:
    """Wakes the sessions that wait for what this process has."""

    def __init__(self, runtime: Runtime, queues: frozenset[str] | None = None) -> None:
        self._runtime = runtime
        self._queues = queues  # that the worker takes sessions of; None: all
        self._known: frozenset[str] = frozenset()
        self._looked_at: int | None = None

    async def watch(self) -> None:
        """Look until cancelled, whenever a worker has parked a session for want of something."""
        wakeups = self._runtime.store.wakeups
        seen = wakeups.version
        while not wakeups.closed.is_set():
            await wakeups.wait_topics(seen, [WORKERS], AGAIN)
            seen = wakeups.version
            try:
                await self._look(is_new=False)
            except PerdureError as error:
                logger.info("Sessions that wait for this worker could not be searched for [%s].", error.code)

    async def wake(self) -> None:
        """Wake the sessions whose code was loaded since the last call."""
        known = frozenset(PROGRAMS) | frozenset(TOOLS)
        if self._looked_at is None or known != self._known:
            await self._look(is_new=True)
            self._known, self._looked_at = known, self._runtime.store.clock.boot()

    async def _look(self, *, is_new: bool) -> None:
        runtime = self._runtime
        names = sorted({*PROGRAMS, *TOOLS}) if is_new else None
        about = (runtime.worker.code_version, runtime.worker.workspace, runtime.policy.is_given, self._queues)
        for one in await runtime.store.read(waits_met, names, *about):
            with suppress(PerdureError):  # it is sealed, or damaged; an unavailable store is met by the next claim
                await runtime.requests.resolve(one, None, runtime.worker.name)


def waits_met(
    tx: StoreTransaction, names: list[str] | None, version: str, workspace: str, has_policy: bool,
    queues: frozenset[str] | None,
) -> list[Wait]:  # fmt: skip
    """The waits that a process meets which has these programs and tools (None: the oldest are looked at), this version
    of the code and this workspace."""
    found = _some_waiting(tx, version, has_policy) if names is None else _all_waiting(tx, names, version, has_policy)
    found += waits_met_here(tx, workspace) + waits_for_policy(tx) + waits_within_budget(tx)
    return found if queues is None else _of_queues(tx, found, queues)


def _of_queues(tx: StoreTransaction, found: list[Wait], queues: frozenset[str]) -> list[Wait]:
    """Those whose sessions are in one of these queues: another worker wakes the others."""
    return [one for one in found if session.get(tx, one.session_uid).queue in queues]


def _all_waiting(tx: StoreTransaction, names: list[str], version: str, has_policy: bool) -> list[Wait]:
    """The waits for each program and tool that is loaded, and for a policy."""
    found = [one for name in names for one in wait.for_ref(tx, name) if one.kind == WaitKind.PROGRAM]
    found = [one for one in found if meets(one, version)]
    return found + (_for_own_policy(tx, wait.MANY) if has_policy else [])


def _some_waiting(tx: StoreTransaction, version: str, has_policy: bool) -> list[Wait]:
    """The oldest waits, if this process has what they are for."""
    found = [one for one in wait.open_waits(tx, kind=WaitKind.PROGRAM, limit=FEW) if meets(one, version)]
    return found + (_for_own_policy(tx, FEW) if has_policy else [])


def _for_own_policy(tx: StoreTransaction, limit: int) -> list[Wait]:
    """The waits for a process that was started with a policy; those for the store's are found apart."""
    return [one for one in wait.open_waits(tx, kind=WaitKind.POLICY, limit=limit) if one.ref != STORE]
