"""The identity of this process as a worker, as the ledger records it, and the liveness of other processes."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import Any

import msgspec

from perdure.domain.worker import Liveness, WorkerRecord
from perdure.errors import PerdureError, StoreUnavailable
from perdure.ids import digest, encode, host, new_name, storable
from perdure.process import forget_in_child
from perdure.runtime.deploy.code_version import code_digests, current_version
from perdure.runtime.workers.liveness import (
    FIRST_NAMESPACE,
    UNKNOWN,
    RegisteredWorker,
    WorkerLocks,
    locks_of_store,
    machine,
    pid_namespace,
)
from perdure.store.moves import worker
from perdure.store.store import Store

logger = logging.getLogger(__name__)
WORKSPACE = "PERDURE_WORKSPACE"  # the environment variable that names the workspace
HEARTBEAT = 60.0  # seconds between two heartbeats of a worker
OWN_WORKERS: set[str] = set()  # the ids of the workers that this process is or was; names and numbers are less certain
forget_in_child(OWN_WORKERS.clear)


def is_here(process: Any) -> bool:
    """Whether an attempt was made by this process, under any of its ids: then its own registry knows the outcome."""
    return isinstance(process, dict) and process.get("id") in OWN_WORKERS


def worker_locks(store: Store) -> WorkerLocks | None:
    """The locks of a store's workers; None for a store in memory, which has one process only."""
    return None if store.folder is None and store.database.dialect == "sqlite" else locks_of_store(store)


def liveness_of(locks: WorkerLocks | None, process: Any) -> Liveness:
    """Whether the process of an attempt is alive, as seen by a process that need not be a worker."""
    if locks is None:
        return Liveness.DEAD
    try:
        row = WorkerRecord(
            process["id"], process["host"], process["boot_id"], process["pid"], process["start_token"],
            0, 0, None, 0, 0,
        )  # fmt: skip
    except (KeyError, TypeError):
        return Liveness.CANNOT_TELL
    return locks.life(row)


def workspace_name(given: str | None = None) -> str:
    """The name of the workspace: processes with the same name have the same files in their folders.

    By default it is the machine. Two containers on one machine have different files, so there the host name counts too.
    """
    if named := (given or os.environ.get(WORKSPACE) or "").strip():
        return storable(named)
    found = machine()
    if found != UNKNOWN and pid_namespace() in (FIRST_NAMESPACE, UNKNOWN):
        return found
    return digest(f"perdure {found} {host()}")[:16]


class WorkerIdentity:
    """This process as a worker of a store. A store in memory has one process only, and needs no lock."""

    def __init__(self, store: Store, programs: list[str], **about: Any) -> None:
        self._store = store
        self._presences: WorkerLocks | None = None
        self._alive: RegisteredWorker | None = None
        self.code_version = current_version(about.get("code_version"))
        self.workspace = workspace_name(next(iter(about.get("workspaces") or ()), None))
        if store.folder is None and store.database.dialect == "sqlite":
            self.id = new_name("w")
            shown: dict[str, Any] = {"id": self.id, "host": host(), "pid": os.getpid()}
        else:
            self._presences = locks_of_store(store)
            self._alive = self._presences.enter(store, programs=programs, **self._announcement(about))
            self.id = self._alive.id
            row = self._alive.worker
            shown = {
                "id": row.id, "host": row.host, "boot_id": row.boot_id, "pid": row.pid, "start_token": row.start_token,
            }  # fmt: skip
        OWN_WORKERS.add(self.id)
        self.process = encode(shown)
        self.name = f"{self.id}@{host()}:{os.getpid()}"

    def _announcement(self, about: dict[str, Any]) -> dict[str, Any]:
        """What it announces, as columns of its row."""
        return about | {
            "code_version": self.code_version, "code": code_digests(), "workspaces": [self.workspace],
        }  # fmt: skip

    async def set_tree(self, tree: Any) -> None:
        """Record the children of this supervisor."""
        self._change(tree=tree)
        await self._store.write(worker.set_tree(self.id, tree))

    def set_draining(self) -> None:
        """Record that this worker takes nothing new. It is a hint for people, so its outcome is not awaited."""
        self._change(draining_at=self._store.clock.now())
        self._store.submit(worker.set_draining(self.id))

    def _change(self, **columns: Any) -> None:
        """Change the row as it is written again if it was removed, for instance by a restore."""
        if self._alive is not None:
            self._alive.worker = msgspec.structs.replace(self._alive.worker, **columns)

    async def keep_seen(self) -> None:
        """Record until cancelled that this worker is there, for machines that cannot test its lock.

        A row that was removed meanwhile is written again.
        """
        while self._alive is not None:
            await asyncio.sleep(HEARTBEAT)
            with suppress(PerdureError):
                if not await self._store.write(worker.heartbeat(self.id)):
                    await self._store.write(worker.register(self._alive.worker))

    def life_of(self, process: dict[str, Any]) -> Liveness:
        """Whether the process of an attempt, or a command that it started, is alive."""
        if not isinstance(process, dict):
            return Liveness.CANNOT_TELL
        return Liveness.ALIVE if process.get("id") == self.id else liveness_of(self._presences, process)

    def life(self, worker: WorkerRecord) -> Liveness:
        if worker.id == self.id:
            return Liveness.ALIVE
        return Liveness.DEAD if self._presences is None else self._presences.life(worker)

    @property
    def pass_fds(self) -> tuple[int, ...]:
        """For a child process that counts as this worker while it runs."""
        return () if self._alive is None else self._alive.pass_fds

    def close(self, *, acting: bool = False) -> None:
        """Leave; while this process is still `acting` as this worker, it keeps the lock.

        Without the store the row stays: the lock tells others that this worker is not there any more.
        """
        if self._alive is not None:
            try:
                self._alive.close(acting=acting)
            except StoreUnavailable as error:
                logger.info("The row of worker %s stays in the store [%s].", self.id, error.code)
