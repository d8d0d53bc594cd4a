"""Leases whose holder is gone: their sessions are made ready again.

A worker of this host whose presence lock is free is dead, and its sessions are freed at once. On other hosts the end of
the lease decides. This frees leases only: whether an act has ended is decided by the recovery of its effect.
"""

from __future__ import annotations

from perdure.domain.worker import Liveness
from perdure.runtime.run.session_lease import free_holder
from perdure.runtime.runtime import Runtime
from perdure.store.moves import lease, worker


class LostLeases:
    """Frees the sessions of dead workers, and those whose lease has ended."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._freed: set[str] = set()  # dead workers whose sessions are free

    async def free(self) -> None:
        store = self._runtime.store
        for row in await store.read(worker.listing):
            if row.id not in self._freed and self._runtime.worker.life(row) is Liveness.DEAD:
                await free_holder(store, row.holder, f"{row.holder} was found dead", by=self._runtime.worker.name)
                self._freed.add(row.id)
        for uid in await store.read(lease.ended):
            await store.write(lease.expire(uid, self._runtime.worker.name, ttl=self._runtime.heartbeat.ttl))
