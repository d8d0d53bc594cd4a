"""Leases that effects need: waiting for them, and telling who waits.

An effect takes what it needs in the transaction that dispatches it and gives it back in the one that settles it
(`store.lease`), so nothing here can leave a resource taken. Telling a waiting session that a resource is free is a
courtesy that may be lost with the process: whoever runs the session that gave it back does it again, and a session that
waits looks for itself whenever it is run.
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
    """Hold the caller until what stood in the way of an effect is given back."""
    if (id := await run.write(lease.wait_for(run.holder, effect.id, held.details["resource"]))) is not None:
        await run.wait_for(id, lane)


async def wake_waiting(store: Store, by: str) -> None:
    """Let sessions go on that wait for something that nobody holds any more."""
    with suppress(PerdureError):
        for one in await store.read(lease.waits_for_free_resources):
            with suppress(PerdureError):  # somebody else told it first
                await store.write(wait.resolve(one.session_uid, by, one.id))


def is_free(tx: StoreTransaction, one: Wait) -> bool:
    """Whether what a session waits for was given back meanwhile."""
    return any(free.id == one.id and free.session_uid == one.session_uid for free in lease.waits_for_free_resources(tx))


def next_look(tx: StoreTransaction, one: Wait) -> int | None:
    """When to look again whether a resource is free; None when only a person can bring that about."""
    holder = _holder(tx, one)
    if one.due_at is not None or holder is None:
        return one.due_at or tx.now
    effect, session = holder
    if effect.doubted_at is not None and effect.verdict is None:
        return None
    moving = session.status == Status.RUNNING and (session.lease_until or 0) >= tx.now
    return tx.now + LOOK if moving or session.status == Status.READY else None


def _holder(tx: StoreTransaction, one: Wait) -> tuple[Effect, SessionRecord] | None:
    """Who holds what a session waits for."""
    for held in lease.named_leases(tx, resources=[one.ref or ""]):
        if held.holder is not None and held.nonce is not None:
            with suppress(NotFound):
                return effects.get(tx, held.holder, held.nonce), sessions.get(tx, held.holder)
    return None
