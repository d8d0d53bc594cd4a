"""Who asks for what a session does.

starters      the identities that started or imported a session
requesters    also those that decided what it does: who defined its schedule, replaced its arguments while it
              waited, or sent it a message that it has read
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from perdure.domain.event import Event
from perdure.domain.session import SessionRecord
from perdure.store.move import StoreTransaction
from perdure.store.moves import control_log, event, inbox, principal

DEEPEST = 100  # parents of parents that are asked who started them
TICK, BACKFILL, TRIGGER = "tick", "backfill", "trigger"  # how a session of a schedule was started


def starters(tx: StoreTransaction, uid: str) -> list[str]:
    """The identities that started or imported a session: with its parents and what it was forked from, and their
    principals.

    A child is started by its parent's worker, and a session of a tick by a service, so those do not count.
    """
    return with_principals(tx, {who for one, _ in _line(tx, uid) for who in _started(tx, one)})


def requesters(tx: StoreTransaction, uid: str) -> list[str]:
    """Those who started a session, and those who decided what it does, with their principals."""
    found: set[str] = set()
    for one, through in _line(tx, uid):
        found |= _started(tx, one) | _steered(tx, one, through)
    return with_principals(tx, found)


def _line(tx: StoreTransaction, uid: str) -> Iterator[tuple[SessionRecord, int]]:
    """A session, its parents, and what it was forked from; each with the last of its events that concerns the first."""
    through = 2**62
    for _ in range(DEEPEST):
        if (row := tx.one("session.get", uid=uid)) is None:
            return
        one = SessionRecord.from_row(row)
        yield one, through
        uid = one.parent_uid or one.forked_from or ""
        through = 2**62 if one.parent_uid or one.forked_at is None else one.forked_at


def _started(tx: StoreTransaction, one: SessionRecord) -> set[str]:
    found = identities_of(event.imports(tx, one.uid))
    first = event.after(tx, one.uid, 0, limit=1)
    if one.parent_uid is None and not any(_is_by_service(one, each) for each in first):
        found |= identities_of(first)
    return found


def _steered(tx: StoreTransaction, one: SessionRecord, through: int) -> set[str]:
    first = event.after(tx, one.uid, 0, limit=1)
    found = {who for each in first if isinstance(who := _schedule(each).get("put_by"), str)}
    described = event.of_kind(tx, one.uid, "session.described", through=through)
    found |= identities_of(each for each in described if "arguments" in _body(each).get("rows", {}).get("session", {}))
    if read := inbox.promoted(tx, one.uid):
        received = event.of_kind(tx, one.uid, "inbox.received", through=through)
        found |= identities_of(each for each in received if _body(each).get("id") in read)
    return found


def _is_by_service(one: SessionRecord, first: Event) -> bool:
    """Whether the first event of a session was written by the service that handled a tick.

    Older versions did not record how a schedule started a session, only its name, also for a backfill.
    """
    if start := _schedule(first).get("start"):
        return bool(start == TICK)
    is_new = one.forked_from is None and "copied" not in _body(first)
    return one.schedule_uid is not None and is_new and first.actor.startswith("schedule:")


def schedule_start(tx: StoreTransaction, uid: str, start: str) -> dict[str, Any]:
    """What the first event of a session says of its schedule: how it was started, and who defined the schedule last."""
    changed = control_log.newest_about(tx, "schedule.changed", uid)
    defined = changed or control_log.newest_about(tx, "schedule.added", uid)
    said = {} if defined is None else defined.body
    return {"start": start} | ({"put_by": said["identity"]} if "identity" in said else {})


def identities_of(events: Iterable[Event]) -> set[str]:
    """Who made the moves that these events record, as it was authenticated."""
    return {who for one in events if isinstance(who := _body(one).get("identity"), str)}


def with_principals(tx: StoreTransaction, identities: Collection[str]) -> list[str]:
    """Identities with the principals that have or had them: to revoke one's own token changes nothing."""
    return sorted({*identities}.union(*(principal.ever_with_login(tx, identity) for identity in identities)))


def _body(one: Event) -> dict[str, Any]:
    return one.body if isinstance(one.body, dict) else {}


def _schedule(first: Event) -> dict[str, Any]:
    """What the first event of a session says of its schedule."""
    said = _body(first).get("schedule")
    return said if isinstance(said, dict) else {}
