"""Failover: another PostgreSQL server took over, and the evidence that nothing was lost.

A new timeline begins a restore, because it may have lost acknowledged commits. That takes effect before anything else
is read or written there. Evidence then exempts sessions from it, one by one or all together:

    register   before a process writes: its row in `writer`, and a file on its host
    note       after every acknowledged commit, before its caller gets the answer: the event, and whether the commit
               waited for a standby
    switch     the first connection to the new timeline begins the restore; every lease is void (`restore.begin`)
    vouch      each writer searches for what it had noted; if all is there and was synchronous, its row moves to the new
               timeline
    keep       a holder whose process found everything, and whose own log ends as it knows, gets its lease back
    conclude   every writer's row is at the new timeline: it was a failover, and the restore is released

What a crash after each line means:

    register   a row whose process is dead. The next process on that host reads the file and vouches for it. If the host
               or the file is gone, `conclude` never happens: it stays a restore until a person releases it
    note       the same. After a crash before it, no caller knew of the commit, so none acted on it
    switch     no writer has vouched: a restore
    vouch      one transaction with `conclude`. If others are missing: a restore for every session without a holder
    keep       one transaction with the move that needs it: the lease is kept, or will be by the holder's next move
    conclude   done

For `keep`, only the holder's own process matters: until the lease ends on the boot clock, no other process can have
moved the session in the time that may be lost. After that another one may have, so the holder waits for `conclude`. A
process that wants to take the session over waits for one full lease, on its own boot clock, from when it detected the
new server.

An old primary that still answers is refused by every process that has seen the new one, and a commit that it
acknowledges after that is searched for on the new one. An old primary that cannot be distinguished from the new one,
because its commits do not wait for the promoted standby, can only be excluded by the operator.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.clock import SECOND
from perdure.domain.lease import RESTORE_SHIFT, Holder, is_void, next_epoch
from perdure.domain.restore import Cause, LossUnknown, Restore
from perdure.domain.writer import Acknowledgment, Writer, all_synchronous
from perdure.store.move import Log, StoreTransaction
from perdure.store.moves import meta, restore

REGISTERED_FOR = 1800 * SECOND  # a writer registers again before it writes after so long
FORGOTTEN_AFTER = 2 * REGISTERED_FOR
BY = "perdure"
BECAUSE = "It was a failover: every process found what it had acknowledged, and its commits had waited for a standby."


class WriterFinding(msgspec.Struct, frozen=True):
    """What a writer found after a switch: whether its commits are there, and why it cannot vouch for them, if so."""

    intact: bool
    finding: str | None


def register(tx: StoreTransaction, id: str, host: str, timeline: str) -> None:
    """Register a writer. Writers that were silent for long are removed: this commit comes after theirs."""
    tx.send("writer.forget_idle", timeline=timeline, before=tx.now - FORGOTTEN_AFTER)
    tx.send("writer.put", id=id, host=host, timeline=timeline, finding=None, now=tx.now)


def vouch(
    tx: StoreTransaction, id: str, host: str, timeline: str, noted: Sequence[Acknowledgment], *, registered: bool = True
) -> WriterFinding:
    """Search for everything that a writer had noted, and record the result in its row; the last writer concludes.

    `registered`: its row must be there, because it is too young to be removed. A loss that is found after the restore
    was concluded or released begins another restore.
    """
    tx.one("meta.lock", key=restore.TIMELINE)  # one at a time, so that the last writer knows that it is the last
    known = get(tx, id)
    lost = next((one for one in noted if not _is_there(tx, one)), None)
    undecided = [one for one in restore.listing(tx) if one.timeline is not None and one.released_at is None]
    gone = registered and known is None and bool(undecided)
    finding: str | None = None
    if lost is not None:
        finding = f"event {lost.number} of session {lost.session_uid} (move {lost.move_id}) is no longer there"
        if not undecided:
            restore.begin(tx, Cause.WITNESS, finding, after=tx.restore_epoch)
    elif gone:
        finding = "its registration is no longer there"
    elif not all_synchronous(noted):
        finding = "its last commits did not wait for a standby"
    if finding is None or not undecided:
        register(tx, id, host, timeline)
    else:
        before = known.timeline if known else max(one.timeline for one in noted)
        tx.send("writer.put", id=id, host=host, timeline=before, finding=finding, now=tx.now)
    if undecided and finding is None and not writers_behind(tx, timeline):
        tx.send("restore.conclude", by=BY, because=BECAUSE, now=tx.now)
    return WriterFinding(lost is None and not gone, finding if undecided else None)


def adopt(tx: StoreTransaction, id: str, timeline: str, noted: Sequence[Acknowledgment]) -> None:
    """Vouch for a dead writer of this host, by its notes; an empty list means that they cannot be read."""
    known = get(tx, id)
    if known is None:  # it had ended, or was removed; or its registration is lost
        if any(not _is_there(tx, one) for one in noted):
            vouch(tx, id, "", timeline, noted, registered=False)
    elif known.timeline == timeline:
        tx.send("writer.delete", id=id)
    elif not noted:
        finding = "what it had noted cannot be read"
        tx.send("writer.put", id=id, host=known.host, timeline=known.timeline, finding=finding, now=tx.now)
    elif vouch(tx, id, known.host, timeline, noted).finding is None:
        tx.send("writer.delete", id=id)


def get(tx: StoreTransaction, id: str) -> Writer | None:
    row = tx.one("writer.get", id=id)
    return Writer.from_row(row) if row else None


def _is_there(tx: StoreTransaction, one: Acknowledgment) -> bool:
    if not one.session_uid:
        return True  # a registration is its writer's row
    return tx.one("event.of_move", uid=one.session_uid, number=one.number, move_id=one.move_id) is not None


def writers_behind(tx: StoreTransaction, timeline: str, *, limit: int = 1000) -> list[Writer]:
    """The writers that have not vouched for a timeline."""
    return [Writer.from_row(row) for row in tx.all("writer.behind", timeline=timeline, limit=limit)]


def missing_writers(tx: StoreTransaction) -> list[Writer]:
    """The writers that have not confirmed that the newest change of server lost nothing."""
    return writers_behind(tx, meta.get(tx, restore.TIMELINE) or "")


def keep_lease(log: Log, holder: Holder) -> bool:
    """Give a holder its lease back after a change of server, if its session has lost nothing."""
    head, tx = log.head, log.tx
    if head.lease_nonce != holder.nonce or not is_void(head.lease_epoch, tx.restore_epoch):
        return False
    if tx.intact < tx.restore_epoch:
        return False
    rows = tx.all("restore.since", epoch=holder.confirmed_epoch >> RESTORE_SHIFT, limit=1000)
    since = [Restore.from_row(row) for row in rows]
    if not since or any(one.timeline is None for one in since):
        return False
    number, chain = holder.head
    if tx.one("event.chain", uid=holder.uid, number=number) != (chain,):
        return False
    undecided = [one for one in since if one.released_at is None]
    if undecided and tx.boot >= holder.boot_deadline:
        raise LossUnknown(
            f"Another server took over, and it is not known whether another worker has moved session {head.id} since "
            f"the lease of {holder.name} ended."
        )
    _give_back(log, holder, since[0], undecided)
    return True


def _give_back(log: Log, holder: Holder, newest: Restore, undecided: list[Restore]) -> None:
    tx = log.tx
    epoch = next_epoch(log.head.lease_epoch, tx.restore_epoch)
    tx.send("session.keep", uid=holder.uid, epoch=epoch, until=tx.now + holder.ttl)
    for one in undecided:
        tx.send("restore.exempt", epoch=one.epoch, uid=holder.uid)
    holder.epoch = epoch  # now: this move is written under it
    log.append("lease.kept", {"epoch": epoch, "timeline": newest.timeline})

    def confirm() -> None:
        holder.confirmed_epoch = epoch
        holder.boot_deadline = max(holder.boot_deadline, tx.boot + holder.ttl)

    tx.after_commit.append(confirm)
