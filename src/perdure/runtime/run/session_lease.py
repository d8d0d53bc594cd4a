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
from perdure.errors import LeaseHeld, NotFound, PerdureError, StoreError, StoreFull, StoreUnavailable
from perdure.ids import new_uid
from perdure.runtime.ledger.attempt_registry import is_acting
from perdure.store.moves import claim as claims
from perdure.store.moves import lease, worker
from perdure.store.moves import session as sessions
from perdure.store.moves.claim import Claim, ClaimRequest
from perdure.store.store import Store

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
    ttl, alone = runtime.heartbeat.ttl, all(other.alone for other in runtime.heartbeat.held)
    version = runtime.worker.code_version
    if is_acting(session.uid):  # of a run that has ended, or has lost its lease
        holding = session.lease_holder or name
        raise LeaseHeld(f"An act of session {session.id} is still under way in this process.", holder=holding)
    try:
        holder = await runtime.store.write(
            lease.acquire(session.uid, name, nonce=nonce, ttl=ttl, alone=alone, code_version=version)
        )
    except LeaseHeld as held:
        who = str(held.details.get("holder") or "")
        known = {one.id: one for one in await runtime.store.read(worker.listing)}
        row = known.get(who.split("@", 1)[0])
        if row is None or runtime.worker.life(row) is not Liveness.DEAD:
            raise
        because = f"{who} was found dead"
        move = lease.take_over(
            session.uid, name, nonce=nonce, ttl=ttl, because=because, taken_from=who, alone=alone, code_version=version
        )
        holder = await runtime.store.write(move)
        logger.info("Session %s: the lease was taken over from %s, which was found dead.", session.uid, who)
    holder.boot_deadline = asked_at + ttl
    return holder


async def claim(runtime: Runtime, request: ClaimRequest) -> Claim:
    """Take ready sessions. If the caller is cancelled meanwhile, they are given back."""
    asked_at = runtime.store.clock.boot()
    taking = asyncio.ensure_future(runtime.store.write(claims.claim(request)))
    try:
        claimed = await asyncio.shield(taking)
    except asyncio.CancelledError:
        with suppress(PerdureError):
            for holder in (await taking).holders:
                await give_back(runtime, holder)
        raise
    for holder in claimed.holders:  # their runs begin one after another, so the leases are kept from now on
        runtime.heartbeat.keep(holder, asked_at, lambda _: None)
    return claimed


async def give_back_claimed(runtime: Runtime, holder: Holder) -> None:
    """Give back a claimed session whose run has not begun."""
    try:
        if not await give_back(runtime, holder):
            runtime.heartbeat.leave(holder)
    finally:
        runtime.heartbeat.drop(holder)


async def free_holder(store: Store, holder: str, because: str, *, by: str) -> int:
    """Make the sessions of a holder ready whose process is certainly dead; returns how many there were.

    It frees leases only: whether an act of that process has ended is decided by the recovery of its effect.
    """
    freed = 0
    for uid in await store.read(lease.of_holder, holder):
        try:
            freed += await store.write(lease.free(uid, by, holder=holder, because=because))
        except (StoreUnavailable, StoreFull):
            raise
        except Exception:  # such as a damaged row: the others must not wait for it
            logger.exception("Session %s of %s could not be freed.", uid, holder)
    if freed:
        logger.info("Sessions of %s were freed: %s (%s).", holder, freed, because)
    return freed


async def give_back(runtime: Runtime, holder: Holder) -> bool:
    """Give the lease back; False if the store is away."""
    try:
        await runtime.store.write(sessions.release(holder))
    except PerdureError as error:  # otherwise the lease is gone already
        return not isinstance(error, StoreError)
    return True
