"""Taking a session's lease for a run, giving it back, and taking it again when a restore has ended it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from perdure.clock import SECOND
from perdure.domain.lease import RESTORE_SHIFT, Holder, is_void
from perdure.domain.session import SessionRecord
from perdure.domain.worker import Liveness
from perdure.errors import LeaseHeld, NotFound, PerdureError, StoreError
from perdure.ids import new_uid
from perdure.runtime.ledger.attempt_registry import is_acting
from perdure.store.moves import lease, worker
from perdure.store.moves import session as sessions

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime

logger = logging.getLogger(__name__)


async def reacquire(runtime: Runtime, lost: Holder) -> Holder | None:
    """Acquire a session again after a restore ended its lease; None if that is not the cause, or another was first.

    No process may do that before the lease has expired, and neither may this one: an act that it does not know of may
    be under way elsewhere.
    """
    while True:
        try:
            now = await runtime.store.read(sessions.get, lost.uid)
            is_ours = now.lease_nonce in (lost.nonce, None)  # None, if the restore went back to before the acquisition
            if not is_ours or not is_void(now.lease_epoch, now.lease_epoch >> RESTORE_SHIFT):
                return None
            return await acquire_shielded(runtime, now)
        except NotFound:  # the restore went back to before the session started
            return None
        except LeaseHeld:
            await asyncio.sleep(runtime.heartbeat.ttl / SECOND / 20)


async def acquire_shielded(runtime: Runtime, session: SessionRecord) -> Holder:
    """Acquire the lease even if the caller is cancelled meanwhile; then it is given back."""
    taking = asyncio.ensure_future(acquire(runtime, session))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        with suppress(PerdureError):
            await give_back(runtime, await taking)
        raise


async def acquire(runtime: Runtime, session: SessionRecord) -> Holder:
    """Acquire the lease; from a holder that is known to be dead, before it expires."""
    nonce, name, asked_at = new_uid(), runtime.worker.name, runtime.store.clock.boot()
    if is_acting(session.uid):  # of a run that has ended, or has lost its lease
        holding = session.lease_holder or name
        raise LeaseHeld(f"An act of session {session.id} is still under way in this process.", holder=holding)
    try:
        holder = await runtime.store.write(lease.acquire(session.uid, name, nonce=nonce, ttl=runtime.heartbeat.ttl))
    except LeaseHeld as held:
        who = str(held.details.get("holder") or "")
        known = {one.id: one for one in await runtime.store.read(worker.listing)}
        row = known.get(who.split("@", 1)[0])
        if row is None or runtime.worker.life(row) is not Liveness.DEAD:
            raise
        because = f"{who} was found dead"
        move = lease.take_over(
            session.uid, name, nonce=nonce, ttl=runtime.heartbeat.ttl, because=because, taken_from=who
        )
        holder = await runtime.store.write(move)
        logger.info("Session %s: the lease was taken over from %s, which was found dead.", session.uid, who)
    holder.boot_deadline = asked_at + runtime.heartbeat.ttl
    return holder


async def give_back(runtime: Runtime, holder: Holder) -> bool:
    """Give the lease back; False if the store is away."""
    try:
        await runtime.store.write(sessions.release(holder))
    except PerdureError as error:  # otherwise the lease is gone already
        return not isinstance(error, StoreError)
    return True
