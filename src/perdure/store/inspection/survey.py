"""A survey of a store: counts, and the first items that need a person. The doctor evaluates it."""

from __future__ import annotations

import msgspec

from perdure.domain.session import SessionRecord
from perdure.domain.worker import WorkerRecord
from perdure.store.inspection.read_access import MANY, SOME
from perdure.store.move import StoreTransaction
from perdure.store.moves import session, worker

OVERDUE = 60_000_000  # microseconds that a worker may take to notice a due wait


class Survey(msgspec.Struct, frozen=True):
    """Counts from the rows, the same on every database."""

    sessions: dict[str, int]
    stale: int
    stale_sessions: list[SessionRecord]
    workers: list[WorkerRecord]
    undecided: int
    in_doubt: int
    quarantined: list[str]
    overdue: list[str]


def survey(tx: StoreTransaction) -> Survey:
    """Count sessions, workers and decisions, and list the first items that need a person."""
    (undecided,) = tx.one("doctor.undecided") or (0,)
    (stale,) = tx.one("doctor.stale", now=tx.now) or (0,)
    (in_doubt,) = tx.one("doctor.in_doubt") or (0,)
    quarantined = [row[0] for row in tx.all("doctor.quarantined", limit=SOME)]
    overdue = [row[0] for row in tx.all("doctor.overdue", before=tx.now - OVERDUE, limit=SOME)]
    return Survey(
        session.count(tx), stale, session.expired(tx, limit=SOME), worker.listing(tx, limit=MANY), undecided, in_doubt,
        quarantined, overdue,
    )  # fmt: skip
