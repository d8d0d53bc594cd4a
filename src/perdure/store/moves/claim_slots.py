"""Waits for a slot: other sessions of the same key use all that its queue allows. A claim opens and ends them.

The wait stays open if something else makes the session ready, such as an answer to another wait. The next claim finds
the key in use and parks the session on the same wait, or takes the session and ends the wait.
"""

from __future__ import annotations

from perdure.domain.session import Status
from perdure.domain.wait import Wait, WaitKind
from perdure.store.move import Log, StoreTransaction
from perdure.store.moves.claim_limits import Candidate


def wait_for_slot(tx: StoreTransaction, one: Candidate, worker: str) -> None:
    """Let a session wait that is ready."""
    log = Log(tx, one, worker)
    waiting = {"status": Status.WAITING, "waiting_since": tx.now}
    open_ = tx.all("wait.open_of_kind", uid=one.uid, kind=WaitKind.SLOT, limit=1)
    if not open_:
        number = log.cursor + 1
        asked = Wait(
            one.uid, f"slot-{number}", WaitKind.SLOT, one.concurrency_key, None, None, tx.now, None, None, None,
            number, None,
        )  # fmt: skip
        tx.send(
            "wait.insert", uid=one.uid, id=asked.id, kind=asked.kind, ref=asked.ref, detail=None, due_at=None,
            now=tx.now, number=number,
        )  # fmt: skip
        log.append("wait.opened", rows={"wait": [asked.to_dict()], "session": waiting})
    else:
        log.append("session.parked", {"waits": [Wait.from_row(open_[0]).id]}, rows={"session": waiting})
    tx.send("claim.wait_for_slot", uid=one.uid, now=tx.now)
    log.close()


def give_slot(tx: StoreTransaction, one: Candidate, worker: str) -> None:
    """Make a session ready that waits."""
    log = Log(tx, one, worker)
    end_slot_wait(log)
    tx.send("claim.give_slot", uid=one.uid)
    log.close()


def end_slot_wait(log: Log) -> None:
    """Resolve the wait of a session, if it is open."""
    tx = log.tx
    for row in tx.all("wait.open_of_kind", uid=log.uid, kind=WaitKind.SLOT, limit=1):
        asked, number = Wait.from_row(row), log.cursor + 1
        end = {"resolved_by": log.actor, "resolved_at": tx.now, "resolved_number": number}
        tx.send("wait.resolve", uid=log.uid, id=asked.id, answer=None, by=log.actor, now=tx.now, number=number)
        ready = {"status": Status.READY, "waiting_since": None}
        rows = {"wait": [{"id": asked.id, "answer": None} | end], "session": ready}
        log.append("wait.resolved", {"kind": asked.kind}, rows=rows)
