"""Export of sessions: all rows as they are stored. The import is in `session_import`.

A session is exported with its lineage: the sessions it was forked from, oldest first, because what it inherits is read
from their rows. A session that moves is sealed first, in one transaction; the seal is the last event of its log here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.domain.effect import Attempt, EffectState, Verdict
from perdure.domain.event import Event
from perdure.domain.fact import private_scope
from perdure.domain.session import TERMINAL, Status
from perdure.domain.wait import WaitKind
from perdure.errors import IllegalMove
from perdure.store.move import Log, StoreTransaction, outsider_move
from perdure.store.moves import effect as effects
from perdure.store.moves import event, lease, session, wait
from perdure.store.moves.attempt import attempts_of
from perdure.store.statements import RECORDS

MANY = 2**31
Columns = dict[str, Any]

TABLES: dict[str, tuple[str, str]] = {  # in the order of their references
    "wait": ("transfer.read_wait", "transfer.write_wait"),
    "inbox": ("transfer.read_inbox", "transfer.write_inbox"),
    "step": ("transfer.read_step", "transfer.write_step"),
    "task": ("transfer.read_task", "transfer.write_task"),
    "decision": ("transfer.read_decision", "transfer.write_decision"),
    "fact": ("transfer.read_fact", "transfer.write_fact"),
    "effect": ("transfer.read_effect", "transfer.insert_effect"),
    "attempt": ("transfer.read_attempt", "transfer.write_attempt"),
    "approval": ("transfer.read_approval", "transfer.write_approval"),
    "vote": ("transfer.read_vote", "transfer.write_vote"),
    "artifact": ("transfer.read_artifact", "transfer.write_artifact"),
}


class StoredSession(msgspec.Struct):
    """One session as it is stored: its row, its log, and the rows of each table."""

    session: Columns
    events: list[Columns]
    tables: dict[str, list[Columns]]

    @property
    def uid(self) -> str:
        return str(self.session["uid"])


def read_lineage(tx: StoreTransaction, uid: str) -> list[StoredSession]:
    """A session with everything it was forked from, oldest first."""
    found = [_read_session(tx, uid)]
    while (before := found[0].session["forked_from"]) is not None:
        found.insert(0, _read_session(tx, before))
    return found


def _read_session(tx: StoreTransaction, uid: str) -> StoredSession:
    row = tx.one("session.get", uid=uid)
    assert row is not None
    return StoredSession(
        _columns("session", row),
        [_columns("event", one) for one in tx.all("event.after", uid=uid, after=0, limit=MANY)],
        {
            name: [_columns(name, one) for one in tx.all(read, uid=uid, scope=private_scope(uid), limit=MANY)]
            for name, (read, _) in TABLES.items()
        },
    )


def _columns(table: str, row: tuple[Any, ...]) -> Columns:
    return dict(zip(RECORDS[table].columns(), row, strict=True))


def sealed_by(tx: StoreTransaction, uid: str) -> Event | None:
    """The event that sealed a session, if that is the last thing it did."""
    last = event.last(tx, uid, limit=1)[-1]
    return last if last.kind == "session.sealed" else None


def acts_under_way(tx: StoreTransaction, uid: str) -> list[Attempt]:
    """Attempts whose end is not recorded."""
    last = [found[-1] for one in effects.unsettled(tx, uid) if (found := attempts_of(tx, uid, one.id))]
    return [one for one in last if one.ended_at is None]


def _needed_here(tx: StoreTransaction, uid: str) -> str | None:
    """What in this store depends on an unsettled effect of the session: a resource, or a branch."""
    for one in effects.unsettled(tx, uid):
        if one.leases and (one.state == EffectState.DISPATCHED or one.verdict == Verdict.ABSENT):
            return f"its effect {one.id} holds {', '.join(map(str, one.leases))} here"
        if any(other.kind == WaitKind.EFFECT and other.session_uid != uid for other in wait.for_ref(tx, one.id)):
            return f"a branch waits here for its effect {one.id}"
    return None


@outsider_move
def seal(log: Log, *, store: str) -> None:
    """Seal the session because it continues in another store; refused while an act here may still have an outcome."""
    id = log.head.id
    if log.head.status == Status.RUNNING and not lease.expire.on(log):
        remaining = (log.head.lease_until or 0) - log.tx.now
        raise lease.lease_held(f"Session {id}", log.head.lease_holder, remaining)
    if under_way := acts_under_way(log.tx, log.uid):
        raise IllegalMove(
            f"Effect {under_way[0].effect_id} of session {id} may still be under way.",
            hint=f"Let it end here first: `perdure resume {id}`.",
        )
    if (why := _needed_here(log.tx, log.uid)) is not None:
        raise IllegalMove(f"Session {id} cannot be moved: {why}.", hint="Settle that effect here first.")
    for one in wait.open_of_session(log.tx, log.uid):
        if one.kind == WaitKind.CHILD:
            raise IllegalMove(f"Session {id} waits for its child {one.ref}.", hint="Move it when that has ended.")
    row = session.get(log.tx, log.uid)
    if row.parent_uid is not None and row.status not in TERMINAL:
        raise IllegalMove(f"Session {id} is a child, and its parent waits for it here.", hint="Copy it instead.")
    log.tx.run("session.seal", uid=log.uid, now=log.tx.now)
    log.append("session.sealed", {"store": store}, rows={"session": {"sealed_at": log.tx.now}})
