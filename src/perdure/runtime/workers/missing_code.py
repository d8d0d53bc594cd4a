"""Sessions that wait for code or a policy: they are woken by a worker that has it.

All of them are searched for when a worker starts and when code is loaded or removed in its process. In between, the
oldest are looked at once in `AGAIN` seconds: another worker may have parked a session for want of a tool that this one
has.
"""

from __future__ import annotations

from contextlib import suppress

from perdure.domain.wait import Wait, WaitKind
from perdure.errors import PerdureError
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.definitions.tool import TOOLS
from perdure.runtime.runtime import Runtime
from perdure.store.move import StoreTransaction
from perdure.store.moves import wait

AGAIN = 60.0
FEW = 1000


class MissingCode:
    """Wakes the sessions that wait for what this process has."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._known: frozenset[str] = frozenset()
        self._looked_at: int | None = None

    async def wake(self) -> None:
        """Wake the sessions whose code was loaded since the last call."""
        known, boot = frozenset(PROGRAMS) | frozenset(TOOLS), self._runtime.store.clock.boot()
        is_new = self._looked_at is None or known != self._known
        if not is_new and boot - (self._looked_at or 0) < AGAIN * 1_000_000:
            return
        has_policy = self._runtime.policy.is_given
        found = await self._runtime.store.read(_all_waiting if is_new else _some_waiting, known, has_policy)
        for one in found:
            with suppress(PerdureError):  # it is sealed, or damaged; an unavailable store is met by the next claim
                await self._runtime.requests.resolve(one, None, self._runtime.worker.name)
        self._known, self._looked_at = known, boot


def _all_waiting(tx: StoreTransaction, known: frozenset[str], has_policy: bool) -> list[Wait]:
    """The waits for each of these names, and for a policy."""
    found = [one for name in sorted(known) for one in wait.for_ref(tx, name) if one.kind == WaitKind.PROGRAM]
    return found + (wait.open_waits(tx, kind=WaitKind.POLICY, limit=wait.MANY) if has_policy else [])


def _some_waiting(tx: StoreTransaction, known: frozenset[str], has_policy: bool) -> list[Wait]:
    """The oldest waits, if this process has what they are for."""
    found = [one for one in wait.open_waits(tx, kind=WaitKind.PROGRAM, limit=FEW) if one.ref in known]
    return found + (wait.open_waits(tx, kind=WaitKind.POLICY, limit=FEW) if has_policy else [])
