"""Moves and reads of requests: what the service has carried out under an idempotency key.

    insert    in the transaction of the request's first move: what was done and the proof of it are one commit
    hold      a process carries out a request that was begun: for `HOLD` microseconds no other one does
    release   it stopped before the last move: any process may complete the request
    finish    after the last move, if there are several
    forget    after a while; the same key is then a new request

A key belongs to its caller. The row keeps what the answer is made from, and no answer.
"""

from __future__ import annotations

from typing import Any

from perdure.clock import SECOND
from perdure.domain.request import BEGUN, DONE, CarriedOut
from perdure.errors import RequestInFlight
from perdure.ids import encode
from perdure.store.move import StoreTransaction, plain_move

HOLD = 30 * SECOND
BATCH = 1000  # that are forgotten in one transaction


def insert(
    tx: StoreTransaction, caller: str, key: str, *, operation: str, digest: str, ids: dict[str, Any], is_done: bool,
    holder: str | None = None,
) -> None:  # fmt: skip
    """Keep a request in the transaction of one of its moves; refused if another one with this key was first."""
    given = {"operation": operation, "digest": digest, "ids": encode(ids), "state": DONE if is_done else BEGUN}
    held = {"holder": None, "held_until": None} if is_done else {"holder": holder, "held_until": tx.now + HOLD}
    if not tx.run("request.insert", caller=caller, key=key, move_id=tx.move_id, now=tx.now, **given, **held):
        raise in_flight()


def in_flight(seconds: int = 1) -> RequestInFlight:
    return RequestInFlight("A request with this idempotency key is being carried out.", retry_after=seconds)


@plain_move
def hold(tx: StoreTransaction, caller: str, key: str, *, holder: str) -> None:
    """Carry out a request that was begun, or continue to; refused while another process holds it."""
    if tx.run("request.hold", caller=caller, key=key, holder=holder, until=tx.now + HOLD, now=tx.now):
        return
    found = get(tx, caller, key)
    if found is not None and found.held_until is not None:
        raise in_flight(max(1, -(-(found.held_until - tx.now) // SECOND)))
    raise in_flight()  # it is done meanwhile, or forgotten


@plain_move
def release(tx: StoreTransaction, caller: str, key: str, *, holder: str) -> None:
    """Let any process complete a request."""
    tx.run("request.release", caller=caller, key=key, holder=holder)


def check_holder(known: CarriedOut, holder: str) -> None:
    """Refuse a move of a request that another process has taken over."""
    if known.state == DONE or known.holder not in (None, holder):
        raise in_flight()


@plain_move
def finish(
    tx: StoreTransaction, caller: str, key: str, *, operation: str, digest: str, ids: dict[str, Any], holder: str
) -> None:
    """A request is done. One that changed nothing is kept too."""
    if get(tx, caller, key) is None:
        insert(tx, caller, key, operation=operation, digest=digest, ids=ids, is_done=True)
    else:
        tx.run("request.finish", caller=caller, key=key, ids=encode(ids), holder=holder)


def drop(tx: StoreTransaction, caller: str, key: str) -> None:
    """Forget a request whose answer has arrived."""
    tx.send("request.drop", caller=caller, key=key)


@plain_move
def forget(tx: StoreTransaction, before: int, *, limit: int = BATCH) -> int:
    """Forget old requests; returns how many."""
    return tx.run("request.forget", before=before, limit=limit)


def has_before(tx: StoreTransaction, before: int) -> bool:
    """Whether there are requests that were carried out before a time."""
    row = tx.one("request.listing", limit=1)
    return row is not None and CarriedOut.from_row(row).at < before


def get(tx: StoreTransaction, caller: str, key: str) -> CarriedOut | None:
    """A request by its key."""
    row = tx.one("request.get", caller=caller, key=key)
    return None if row is None else CarriedOut.from_row(row)
