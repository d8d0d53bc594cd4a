"""Leases: who may move a session, or another named resource, and until when.

    acquire          no process holds it, or its time is over: the epoch rises, the session runs
    renew            the same holder continues; fenced by epoch and nonce, leaves no event
    release          `session.release`, `wait.park` and `session.finish` release a session's lease
    take over        its holder is known to be dead, or a person insists: the epoch rises
    expire, free     its time is over, or its holder is known to be dead: the session is ready again
    claim            the resources of an effect, all or none, in the transaction that dispatches it
    release claims   the same, in the transaction that settles it

Each is one transaction, so a crash leaves the lease as it was before or after. A second request
with the same nonce is the same acquisition, so a lost answer does not cost an epoch or lock its owner out.
Blame. A session that loses its holder is a suspect: it is run alone until it has made progress. Its crash count rises
only if its holder ran no other session and it made no progress: otherwise another session may have ended the process.

What an effect claims has no time limit. It is held from dispatch to settlement, even if processes die in between and
however long the effect is in doubt: claim and dispatch are one transaction, and so are settlement and release.
The deadline that an act is checked against is kept on the boot clock of the holder's machine and begins *before* the
request was sent: the holder always stops before the store lets another process begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.domain.effect import Effect
from perdure.domain.lease import UNTIL_SETTLED, Holder, Lease, is_void, next_epoch, reserved_for
from perdure.domain.record import check_move
from perdure.domain.restore import LossUnknown
from perdure.domain.session import MOVES, SessionRecord, Status
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import LeaseHeld, LeaseLost
from perdure.ids import check_name
from perdure.store.invocation import described
from perdure.store.move import (
    Log,
    Move,
    StoreTransaction,
    hold,
    holder_move,
    note_requests,
    outsider_move,
    plain_move,
    read_head,
)
from perdure.store.moves import event, wait


@outsider_move
def acquire(log: Log, *, nonce: str, ttl: int, alone: bool = True, code_version: str | None = None) -> Holder:
    """Acquire the lease of a session that no process holds; the caller becomes the holder."""
    head = log.head
    if head.lease_nonce == nonce:
        return _holder(log, nonce, head.lease_epoch, ttl)
    if (left := _reserved(log, ttl)) > 0:
        raise lease_held(f"Session {head.id}", head.lease_holder, left)
    if head.lease_until is not None and head.lease_until >= log.tx.now:
        raise lease_held(f"Session {head.id}", head.lease_holder, head.lease_until - log.tx.now)
    if head.status == Status.WAITING:  # a run that was asked for needs no slot
        for asked in wait.open_of_kind(log.tx, log.uid, WaitKind.SLOT):
            wait.settle(log, asked, None)
            log.head = read_head(log.tx, log.uid)
    return _take(log, nonce, ttl, "lease.acquired", because=None, alone=alone, code_version=code_version)


def _reserved(log: Log, ttl: int) -> int:
    """How long the session is still reserved for a holder whose lease ended because another server took over."""
    head, tx = log.head, log.tx
    is_reserved = head.lease_nonce is not None and is_void(head.lease_epoch, tx.restore_epoch)
    return reserved_for(ttl, tx.switched_at, tx.boot) if is_reserved else 0


@outsider_move
def take_over(
    log: Log,
    *,
    nonce: str,
    ttl: int,
    because: str,
    taken_from: str | None = None,
    alone: bool = True,
    code_version: str | None = None,
) -> Holder:
    """Take a session from its holder before its time is over; `because` is the reason: its process was found dead.

    `taken_from` is the dead holder; if another one holds the session by now, that one keeps it.
    """
    head = log.head
    if head.lease_nonce == nonce:
        return _holder(log, nonce, head.lease_epoch, ttl)
    if taken_from is not None and head.lease_holder not in (taken_from, None):
        raise lease_held(f"Session {head.id}", head.lease_holder, (head.lease_until or 0) - log.tx.now)
    return _take(log, nonce, ttl, "lease.taken_over", because=because, alone=alone, code_version=code_version)


def _take(
    log: Log, nonce: str, ttl: int, kind: str, *, because: str | None, alone: bool, code_version: str | None
) -> Holder:
    check_name("The lease's nonce", nonce)
    head = log.head
    epoch = next_epoch(head.lease_epoch, log.tx.restore_epoch)
    crashed = head.status == Status.RUNNING
    if not crashed:
        check_move("session", MOVES, Status(head.status), Status.RUNNING)
    began = code_version if head.lease_epoch == 0 else None  # later code is not the one that it began under
    crash_count, _, version = log.tx.one("lease.crash_record", uid=log.uid) or (0, None, None)
    log.tx.run(
        "session.lease",
        uid=log.uid, holder=log.actor, nonce=nonce, epoch=epoch, until=log.tx.now + ttl, alone=int(alone),
        crash_count=_crashes(log) if crashed else crash_count, suspected_at=log.tx.now if crashed else None,
        code_version=began,
    )  # fmt: skip
    columns: dict[str, Any] = {"status": Status.RUNNING, "waiting_since": None}
    if version is None and began is not None:
        columns["code_version"] = began
    body = {"epoch": epoch, "from": head.lease_holder, "because": because}
    log.append(kind, body, rows={"session": columns})
    holder = _holder(log, nonce, epoch, ttl)
    holder.alone = alone
    return holder


def _crashes(log: Log) -> int:
    """How often in a row the session has ended its worker without progress, this time included.

    It is not counted if another session may have been the cause: one that its holder ran as well, or its child.
    """
    before, alone, _ = log.tx.one("lease.crash_record", uid=log.uid) or (0, None, None)
    taken = max(event.newest_of(log.tx, log.uid, kind) for kind in ("lease.acquired", "lease.taken_over"))
    if has_progress(log.tx, log.uid, taken, log.head.lease_holder):
        return 1 if alone == 1 else 0
    is_suspect = alone == 1 and log.tx.one("lease.crashed_child", uid=log.uid) is None
    return int(before) + is_suspect


def has_progress(tx: StoreTransaction, uid: str, after: int, holder: str | None) -> bool:
    """Whether a holder made progress since an event, other than trying again what was tried before."""
    return tx.one("lease.progress", uid=uid, after=after, holder=holder) is not None


def _holder(log: Log, nonce: str, epoch: int, ttl: int) -> Holder:
    """The new holder, with the requests that were made of the session before."""
    holder = Holder(log.uid, log.actor, nonce, epoch, log.cursor, log.chain)
    holder.ttl = ttl
    note_requests(holder, log.head)
    return holder


@outsider_move
def expire(log: Log, *, ttl: int = 0) -> bool:
    """Make a session ready whose holder stopped renewing the lease. `ttl` is how long leases last."""
    head = log.head
    if head.status != Status.RUNNING or (head.lease_until or 0) >= log.tx.now or _reserved(log, ttl) > 0:
        return False
    _free(log, because=None)
    return True


@outsider_move
def free(log: Log, *, holder: str, because: str) -> bool:
    """Make a session ready whose holder is certainly dead; False if that holder no longer holds it."""
    if log.head.status != Status.RUNNING or log.head.lease_holder != holder:
        return False
    _free(log, because=because)
    return True


def _free(log: Log, because: str | None) -> None:
    columns = {"status": Status.READY, "waiting_since": None}
    log.tx.run("session.unlease", uid=log.uid, crash_count=_crashes(log), suspected_at=log.tx.now, **columns)
    log.append("lease.expired", {"from": log.head.lease_holder, "because": because}, rows={"session": columns})
    log.tx.wake(log.head.queue)


def of_holder(tx: StoreTransaction, holder: str, *, limit: int = 1_000_000) -> list[str]:
    """The uids of the sessions that a holder holds."""
    return [row[0] for row in tx.all("lease.of_holder", holder=holder, limit=limit)]


def first_ends(tx: StoreTransaction, *, limit: int = 1000) -> list[tuple[str, int]]:
    """The uids of the sessions whose leases end first, or have ended, and when."""
    return [(uid, until) for uid, until in tx.all("lease.first_ends", limit=limit)]


@described
def renew(holder: Holder, ttl: int, *, wait: bool = True) -> Move[bool]:
    """Extend the lease of a session. Leaves no event.

    Without `wait` it returns False if another move holds the session's row and the lease is ours, or if it is not known
    yet whether the lease is ours, after another server took over.
    """

    def run(tx: StoreTransaction) -> bool:
        if not wait and tx.one("session.lock_free", uid=holder.uid) is None:
            if tx.one("session.held", uid=holder.uid) == (holder.nonce,):  # under any epoch
                return False
            raise _lost(holder)
        tx.run("session.renew", uid=holder.uid, epoch=holder.epoch, nonce=holder.nonce, until=tx.now + ttl)
        try:
            hold(tx, holder).close()  # it is ours, or lost, or another server took over and it can be kept
        except LossUnknown:
            if wait:
                raise
            return False
        return True

    return Move("lease.renew", "holder", run, urgent=not wait)


def _lost(holder: Holder) -> LeaseLost:
    return LeaseLost(f"The lease of session {holder.uid} is no longer {holder.name}'s (epoch {holder.epoch}).")


@plain_move
def acquire_named(tx: StoreTransaction, resource: str, *, holder: str, nonce: str, ttl: int) -> Lease:
    """Acquire a named resource that is free."""
    for kind, name in (("The resource", resource), ("The holder", holder), ("The lease's nonce", nonce)):
        check_name(kind, name)
    fresh = Lease(resource, holder, nonce, next_epoch(0, tx.restore_epoch), tx.now + ttl)
    if tx.run("lease.insert", **fresh.to_dict()):
        return fresh
    now = _locked(tx, resource)
    if now.nonce == nonce:
        return now
    _refuse_held(tx, now)
    taken = Lease(resource, holder, nonce, next_epoch(now.epoch, tx.restore_epoch), tx.now + ttl)
    tx.run("lease.take", **taken.to_dict())
    return taken


def claim(log: Log, effect_id: str, position: Any, resources: list[str]) -> dict[str, dict[str, int]]:
    """Claim the resources of an effect, all or none, in the transaction that dispatches it; returns the epochs.

    An undo is covered by the claims that the undone effect still holds. All processes lock resources in the same order.
    """
    own, epochs, tx = _names(effect_id, position), {}, log.tx
    for resource in sorted(set(resources)):
        fresh = Lease(resource, log.uid, effect_id, next_epoch(0, tx.restore_epoch), UNTIL_SETTLED)
        if tx.run("lease.insert", **fresh.to_dict()):
            epochs[resource] = fresh.epoch
            continue
        now = _locked(tx, resource)
        if now.holder == log.uid and now.nonce in own:
            epochs[resource] = now.epoch
            continue
        _refuse_held(tx, now)
        epochs[resource] = next_epoch(now.epoch, tx.restore_epoch)
        tx.send("lease.take", **(fresh.to_dict() | {"epoch": epochs[resource]}))
    _stop_waiting(log, effect_id)
    return {"leases": epochs}


def release_claims(log: Log, effect_id: str, resources: list[str]) -> None:
    """Release the claims of an effect, in the transaction that settles it."""
    for resource in sorted(set(resources)):
        log.tx.send("lease.settle", resource=resource, holder=log.uid, nonce=effect_id)
    _stop_waiting(log, effect_id)


@holder_move
def wait_for(log: Log, effect_id: str, resource: str) -> str | None:
    """Open a wait for a resource that an effect needs; None if it is free by now.

    The check and the wait are one transaction under the resource's lock: a later release sees the wait.
    """
    now = _locked(log.tx, resource)
    try:
        _refuse_held(log.tx, now)
    except LeaseHeld as held:
        for asked in _waiting(log, effect_id):
            if asked.ref == resource:
                return asked.id
        _stop_waiting(log, effect_id)
        id, detail = f"lease-{effect_id}-{log.cursor}", {"for": effect_id, "why": held.message} | held.details
        wait.open_.on(log, id, WaitKind.LEASE, ref=resource, detail=detail, due_at=held.details["until"])
        return id
    return None


def _waiting(log: Log, effect_id: str) -> list[Wait]:
    open_ = wait.open_of_kind(log.tx, log.uid, WaitKind.LEASE)
    return [asked for asked in open_ if isinstance(asked.detail, dict) and asked.detail.get("for") == effect_id]


def _stop_waiting(log: Log, effect_id: str) -> None:
    for asked in _waiting(log, effect_id):
        wait.settle(log, asked, None)


def _names(effect_id: str, position: Any) -> set[str]:
    """The acquisitions that cover an effect: its own, and for an undo that of the undone effect."""
    return {effect_id, position[1]} if position[0] == "undo" else {effect_id}


def _locked(tx: StoreTransaction, resource: str) -> Lease:
    row = tx.one("lease.lock", resource=resource)
    assert row is not None
    return Lease.from_row(row)


def _refuse_held(tx: StoreTransaction, now: Lease) -> None:
    if now.until is None or now.until < tx.now:
        return
    if now.until != UNTIL_SETTLED:
        about = {"resource": now.resource, "effect": None, "until": now.until}
        raise lease_held(f"Resource {now.resource}", now.holder, now.until - tx.now, **about)
    row = tx.one("session.get", uid=now.holder)
    name = SessionRecord.from_row(row).id if row else now.holder
    raise LeaseHeld(
        f"{now.resource} is held by session {name} until its effect {now.nonce} is settled.",
        hint=f"Let session {name} continue, or settle its effect.",
        holder=name, resource=now.resource, effect=now.nonce, until=None,
    )  # fmt: skip


def blocking_lease(tx: StoreTransaction, effect: Effect) -> LeaseHeld | None:
    """The lease of another holder that an effect needs, as an error; nothing is locked."""
    own = _names(effect.id, effect.position)
    for one in named_leases(tx, resources=effect.leases or []):
        if one.holder != effect.session_uid or one.nonce not in own:
            try:
                _refuse_held(tx, one)
            except LeaseHeld as held:
                return held
    return None


def waits_for_free_resources(tx: StoreTransaction, *, limit: int = 1000) -> list[Wait]:
    """Waits for resources that are free by now, the longest wait first."""
    return [Wait.from_row(row) for row in tx.all("lease.freed", now=tx.now, limit=limit)]


@plain_move
def renew_named(tx: StoreTransaction, lease: Lease, *, ttl: int) -> Lease:
    """Extend the lease of a named resource."""
    until = tx.now + ttl
    if not tx.run("lease.renew", resource=lease.resource, epoch=lease.epoch, nonce=lease.nonce, until=until):
        raise LeaseLost(f"The lease of {lease.resource} is no longer {lease.holder}'s (epoch {lease.epoch}).")
    return Lease(lease.resource, lease.holder, lease.nonce, lease.epoch, until)


@plain_move
def release_named(tx: StoreTransaction, lease: Lease) -> bool:
    """Release a named resource; False if another holder has had it since. A second release changes nothing."""
    if tx.run("lease.release", resource=lease.resource, epoch=lease.epoch, nonce=lease.nonce):
        return True
    row = tx.one("lease.lock", resource=lease.resource)
    return row is not None and Lease.from_row(row).epoch == lease.epoch


def named_leases(tx: StoreTransaction, *, resources: Sequence[str] | None = None, limit: int = 1000) -> list[Lease]:
    """Leases of named resources: all, or of these resources."""
    if resources is None:
        return [Lease.from_row(row) for row in tx.all("lease.list", limit=limit)]
    return [Lease.from_row(row) for name in resources if (row := tx.one("lease.get", resource=name))]


def lease_held(what: str, holder: str | None, remaining: int, **details: Any) -> LeaseHeld:
    seconds = max(1, remaining // 1_000_000)
    return LeaseHeld(
        f"{what} is held by {holder} for up to {seconds} s more.",
        hint=f"Wait until {holder} is done, or for its lease to end.",
        holder=holder,
        **details,
    )
