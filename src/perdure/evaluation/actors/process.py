"""One process of a trial: `python -m perdure.evaluation.actors.process ROLE NAME TRIAL`, the trial as JSON.

It prints a line when it is ready and begins when it reads one, so that all actors of a trial begin together.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from perdure.evaluation.actors import blob_family, session_family
from perdure.evaluation.actors.blob_family import BlobFamily
from perdure.evaluation.actors.family import ActorTrial
from perdure.evaluation.actors.history import ActorHistory
from perdure.runtime.runtime import Runtime
from perdure.runtime.runtime import open as open_runtime

SESSION_ROLES: dict[str, Callable[[Runtime, ActorTrial, ActorHistory], Awaitable[None]]] = {
    "worker": session_family.work,
    "scheduler": session_family.schedule,
    "approver": session_family.approve,
    "canceller": session_family.cancel,
    "auditor": session_family.audit,
}
BLOB_ROLES: dict[str, Callable[[BlobFamily, ActorHistory], Awaitable[None]]] = {
    "worker": blob_family.work,
    "scheduler": blob_family.schedule,
    "approver": blob_family.approve,
    "canceller": blob_family.cancel,
    "auditor": blob_family.audit,
}
TOGETHER = "all"  # every role in one process, for a store that only one process can open


def wait_for_start() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()


async def run_on_store(role: str, name: str, trial: ActorTrial) -> None:
    async with open_runtime(trial.target) as runtime:
        roles = [*SESSION_ROLES] if role == TOGETHER else [role]
        if role == TOGETHER:
            await session_family.start(runtime, trial)
        await asyncio.to_thread(wait_for_start)
        await asyncio.gather(*(_act(runtime, one, one if role == TOGETHER else name, trial) for one in roles))
        if role == TOGETHER:
            await session_family.write_final(runtime, trial)


async def _act(runtime: Runtime, role: str, name: str, trial: ActorTrial) -> None:
    with ActorHistory(Path(trial.folder), name) as history:
        await SESSION_ROLES[role](runtime, trial, history)


async def run_on_blobs(role: str, name: str, trial: ActorTrial) -> None:
    family = BlobFamily(trial, meets=role in ("scheduler", "canceller"))
    wait_for_start()
    with ActorHistory(Path(trial.folder), name) as history:
        await BLOB_ROLES[role](family, history)
    family.close()


async def prepare(trial: ActorTrial) -> None:
    """Start the family, before the processes of the actors."""
    if trial.is_store:
        async with open_runtime(trial.target) as runtime:
            await session_family.start(runtime, trial)
    else:
        BlobFamily(trial).start()


async def conclude(trial: ActorTrial) -> None:
    """Write what there is in the end, after the processes of the actors."""
    if trial.is_store:
        async with open_runtime(trial.target) as runtime:
            await session_family.write_final(runtime, trial)
    else:
        blob_family.write_final(BlobFamily(trial))


def main() -> None:
    role, name, given = sys.argv[1:]
    trial = msgspec.json.decode(given, type=ActorTrial)
    asyncio.run((run_on_store if trial.is_store else run_on_blobs)(role, name, trial))


if __name__ == "__main__":
    main()
