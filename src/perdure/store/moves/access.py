"""The access log: who read or exported something sensitive, if the policy of the store asks for it.

It is apart from the logs of sessions: reading a session changes nothing in it. It has a retention (`forget`).

What the policy logs is asked before the read (`is_logged`), and the line is committed before anything is shown, so that
no read is missing from the log. A policy that this version cannot read logs every kind of read. Who started a session
reads their own transcript, which is not logged.
"""

from __future__ import annotations

from functools import lru_cache

from perdure.domain.policy import parse
from perdure.domain.policy.document import LOGGED_READS
from perdure.errors import ConfigError
from perdure.ids import check_text, new_uid
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import control_log, policy, requester

OWN = "transcript"  # it is not logged if those who started the session read it
BATCH = 10_000  # rows that are forgotten in one transaction
LONGEST = 2000  # characters of a text
UNKNOWN = "unknown"


def record(
    *,
    identity: str,
    action: str,
    session_uid: str | None = None,
    subject: str | None = None,
    detail: str | None = None,
    id: str | None = None,
) -> Move[None]:
    """Record that `identity` read something. `subject` is what, such as the id of an approval."""
    key = id or new_uid()
    texts = {"identity": identity or UNKNOWN, "action": action, "subject": subject, "detail": detail}
    values = {name: None if one is None else check_text(f"The {name}", one)[:LONGEST] for name, one in texts.items()}

    def run(tx: StoreTransaction) -> None:
        tx.run("access.insert", id=key, session_uid=session_uid, now=tx.now, **values)

    return Move("access.record", "plain", run)


def is_logged(tx: StoreTransaction, action: str) -> bool:
    """Whether the policy of the store logs this kind of read."""
    active = policy.newest(tx)
    return active is not None and action in _logged_reads(active.source)


@lru_cache(maxsize=8)
def _logged_reads(source: str) -> frozenset[str]:
    try:
        return parse(source).log_access
    except ConfigError:
        return frozenset(LOGGED_READS)


def note(action: str, session_uid: str | None, *, subject: str | None = None, detail: str | None = None) -> Move[bool]:
    """Record a read by who makes this move; returns whether it was recorded."""
    id = new_uid()

    def run(tx: StoreTransaction) -> bool:
        if action == OWN and session_uid is not None and tx.identity in requester.starters(tx, session_uid):
            return False
        record(identity=tx.identity, action=action, session_uid=session_uid, subject=subject, detail=detail, id=id).run(
            tx
        )
        return True

    return Move("access.note", "plain", run)


def count(tx: StoreTransaction, before: int) -> int:
    """How many reads are older than a time."""
    row = tx.one("access.count", before=before)
    return int(row[0]) if row else 0


def forget(before: int, by: str) -> Move[int]:
    """Forget the oldest reads before a time; returns how many. The caller repeats it until nothing is left."""

    def run(tx: StoreTransaction) -> int:
        if control_log.was_written(tx):
            return 0
        if gone := tx.run("access.forget", before=before, limit=BATCH):
            control_log.append(tx, "access.forgotten", by, {"identity": tx.identity, "before": before, "reads": gone})
        return gone

    return Move("access.forget", "plain", run)
