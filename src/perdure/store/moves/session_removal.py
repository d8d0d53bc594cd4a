"""Removal of a session: its content is forgotten, and its row stays as a tombstone.

    check     no effect is unsettled, no worker holds it, and no session depends on it
    forget    the rows of its effects, steps, waits, messages, plan, facts, checkpoints and artifacts are deleted, and
              the bodies of its events are erased
    record    the last event names who removed it and why

It is one transaction. The tombstone keeps the id, the uid, and the numbers and digests of the events: the log still
verifies, no session can be started or imported under this id or uid again, and so no effect is repeated. The files of
artifacts stay; another session may have the same content.
"""

from __future__ import annotations

import msgspec

from perdure.domain.fact import private_scope
from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.errors import ConfigError, IllegalMove
from perdure.ids import check_text
from perdure.store.move import Log, StoreTransaction, outsider_move
from perdure.store.moves import doubt, session

DELETIONS = (  # of rows before those that they refer to
    *("removal.vote", "removal.attempt", "removal.approval", "removal.effect", "removal.inbox", "removal.wait"),
    *("removal.step", "removal.task", "removal.decision", "removal.checkpoint", "removal.artifact"),
    "removal.notification",
)


class Removal(msgspec.Struct, frozen=True):
    """What the removal of a session forgets."""

    id: str
    events: int
    effects: int
    messages: int
    artifacts: int  # that no other session has
    artifact_bytes: int
    snapshots_of: str | None  # the repository whose snapshots `perdure prune` removes afterwards


@outsider_move
def remove(log: Log, *, because: str) -> None:
    """Forget the content of a session."""
    if not check_text("The reason", because).strip():
        raise ConfigError("The reason is empty.", hint="Say why the session is removed.")
    now = session.get(log.tx, log.uid)
    refuse_needed(log.tx, now)
    forgotten = preview(log.tx, now)
    status = now.status if now.status in TERMINAL else Status.CANCELLED
    log.tx.run("session.remove", uid=log.uid, status=status, now=log.tx.now)
    for statement in DELETIONS:
        log.tx.run(statement, uid=log.uid)
    log.tx.run("removal.fact", scope=private_scope(log.uid))
    log.tx.run("removal.shared_fact", uid=log.uid)
    log.tx.run("removal.event", uid=log.uid)
    body = {"because": because, "events": forgotten.events, "effects": forgotten.effects}
    log.append("session.removed", body, rows={"session": {"status": status, "removed_at": log.tx.now}})


def refuse_needed(tx: StoreTransaction, now: SessionRecord) -> None:
    """Refuse to remove a session that is not at rest, or that another session depends on."""
    if now.status == Status.RUNNING:
        raise IllegalMove(
            f"Session {now.id} is running, so it was not removed.",
            hint=f"Wait for it, or stop it with `perdure cancel {now.id}`.",
        )
    if left := doubt.unfinished(tx, now.uid):
        names = ", ".join(one.id for one in left[:3])
        raise IllegalMove(
            f"Session {now.id} has unsettled effects, so it was not removed: {names}.",
            hint=f"`perdure show {now.id}` shows what to do about each.",
        )
    if needed := [row[0] for row in tx.all("removal.dependents", uid=now.uid, limit=4)]:
        names = ", ".join(needed[:3]) + (" and others" if len(needed) > 3 else "")
        raise IllegalMove(
            f"Branches or children of session {now.id} need its record: {names}.", hint="Remove those first."
        )
    if now.parent_uid is not None and (parent := session.get(tx, now.parent_uid)).status not in TERMINAL:
        raise IllegalMove(f"Session {now.id} is a child of session {parent.id}, which has not ended.")


def preview(tx: StoreTransaction, now: SessionRecord) -> Removal:
    """What a removal would forget; refused if the session cannot be removed."""
    refuse_needed(tx, now)
    made, messages, artifacts, size = tx.one("removal.counts", uid=now.uid) or (0, 0, 0, 0)
    return Removal(now.id, now.cursor, made, messages, artifacts, int(size), now.repository)
