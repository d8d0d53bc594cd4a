"""Leases that effects need: waiting for them, and waking the sessions that wait.

An effect takes what it needs in the transaction that dispatches it and gives it back in the one that settles it
(`store.moves.lease`), so nothing here can leave a resource taken. Waking a waiting session is only a convenience, and
may be lost with the process: the next run of the session that gave the resource back does it again, and a waiting
session checks for itself whenever it is run.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from perdure.domain.effect import Effect
from perdure.domain.session import SessionRecord, Status
from perdure.domain.wait import Wait
from perdure.errors import LeaseHeld, NotFound, PerdureError
from perdure.runtime.run.position import ExecutionLane
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect as effects
from perdure.store.moves import lease, wait
from perdure.store.moves import session as sessions
from perdure.store.store import Store

if TYPE_CHECKING:
    from perdure.runtime.run.run import Run

LOOK = 5_000_000


async def wait_until_free(run: Run, effect: Effect, held: LeaseHeld, lane: ExecutionLane | None) -> None:
    """Hold the caller until the resource that an effect needs is given back."""
    if (id := await run.write(lease.wait_for(run.holder, effect.id, held.details["resource"]))) is not None:
        await run.wait_for(id, lane)


async def wake_waiting(store: Store, by: str) -> None:
    """Wake sessions that wait for a resource that is free now."""
    with suppress(PerdureError):
        for one in await store.read(lease.waits_for_free_resources):
            with suppress(PerdureError):  # another process was first
                await store.write(wait.resolve(one.session_uid, by, one.id))


def is_free(tx: StoreTransaction, one: Wait) -> bool:
    """Whether the resource that a session waits for is free now."""
    return any(free.id == one.id and free.session_uid == one.session_uid for free in lease.waits_for_free_resources(tx))


def next_look(tx: StoreTransaction, one: Wait) -> int | None:
    """When to check again whether a resource is free; None if only a person can free it."""
    holder = _holder(tx, one)
    if one.due_at is not None or holder is None:
        return one.due_at or tx.now
    effect, session = holder
    if effect.doubted_at is not None and effect.verdict is None:
        return None
    moving = session.status == Status.RUNNING and (session.lease_until or 0) >= tx.now
    return tx.now + LOOK if moving or session.status == Status.READY else None


def _holder(tx: StoreTransaction, one: Wait) -> tuple[Effect, SessionRecord] | None:
    """The effect and the session that hold the resource."""
    for held in lease.named_leases(tx, resources=[one.ref or ""]):
        if held.holder is not None and held.nonce is not None:
            with suppress(NotFound):
                return effects.get(tx, held.holder, held.nonce), sessions.get(tx, held.holder)
    return None
