"""Moves and reads of workers: which processes run sessions, since when, and which programs they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.domain.worker import WorkerRecord
from perdure.ids import check_name, check_text, encode
from perdure.store.move import StoreTransaction, plain_move
from perdure.store.topics import WORKERS


@plain_move
def register(tx: StoreTransaction, worker: WorkerRecord) -> None:
    """Register a worker; a second registration refreshes it."""
    check_name("The worker", worker.id)
    check_text("The worker", worker.host + worker.boot_id + worker.start_token)
    row = worker.to_dict()
    for column in WorkerRecord.json_columns:
        row[column] = None if row[column] is None else encode(row[column])
    tx.run("worker.put", **row, now=tx.now)
    tx.wake_service(WORKERS)


@plain_move
def set_tree(tx: StoreTransaction, id: str, tree: Any) -> None:
    """Record the children of a supervisor, as it sees them."""
    tx.run("worker.set_tree", id=id, tree=encode(tree), now=tx.now)


@plain_move
def set_draining(tx: StoreTransaction, id: str) -> None:
    """Record that a worker takes nothing new; the first time counts."""
    tx.run("worker.set_draining", id=id, now=tx.now)


@plain_move
def heartbeat(tx: StoreTransaction, id: str) -> bool:
    """Record a heartbeat; False if the worker was removed and must register again."""
    return bool(tx.run("worker.seen", id=id, now=tx.now))


@plain_move
def forget(tx: StoreTransaction, ids: Sequence[str]) -> None:
    """Remove workers that have ended."""
    for id in ids:
        tx.run("worker.delete", id=id)


def find(tx: StoreTransaction, id: str) -> WorkerRecord | None:
    row = tx.one("worker.get", id=id)
    return None if row is None else WorkerRecord.from_row(row)


@plain_move
def forget_idle(tx: StoreTransaction, workers: Sequence[WorkerRecord]) -> None:
    """Remove workers that have ended, except those that still hold a session."""
    for one in workers:
        tx.run("worker.delete_idle", id=one.id, seen_at=one.seen_at, holder=f"{one.id}@{one.host}:{one.pid}")


def listing(tx: StoreTransaction, *, limit: int = 1000) -> list[WorkerRecord]:
    return [WorkerRecord.from_row(row) for row in tx.all("worker.list", limit=limit)]


def running_sessions(tx: StoreTransaction) -> dict[str, int]:
    """How many sessions each worker runs, by the id of the worker."""
    found: dict[str, int] = {}
    for holder, number in tx.all("worker.running_sessions"):
        id = (holder or "").split("@", 1)[0]
        found[id] = found.get(id, 0) + number
    return found
