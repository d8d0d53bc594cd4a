"""Moves and reads of waits.

An answer between opening a wait and parking is never missed: the wait is in the table before it can be answered,
`resolve` and `park` both hold the session's row lock, and `park` refuses when one of its waits has been resolved.

    open      the wait is in the table, the session still runs
    resolve   the wait has its answer; a waiting session becomes ready, a running one sees the answer when it parks
    park      no wait is resolved: the session waits and its lease is released; otherwise it continues to run
    resume    the request to pause is withdrawn, and every wait for `paused` is resolved with it
"""

from __future__ import annotations

from typing import Any, NamedTuple

from perdure.domain.caller import Place
from perdure.domain.record import same_json
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import ConfigError, Conflict, IllegalMove, NotFound
from perdure.ids import check_name, check_text, encode
from perdure.store.move import Log, StoreTransaction, holder_move, outsider_move
from perdure.store.moves import notification, session
from perdure.store.row_check import damaged_row, readable, records
from perdure.store.topics import APPROVALS, TIMERS

MANY = 1_000_000
TIMER = "timer"  # who resolves a wait that is due
DEADLINE = "deadline"  # the kind of a deadline among what is due


@holder_move
def open_(
    log: Log, id: str, kind: WaitKind, *, ref: str | None = None, detail: Any = None, due_at: int | None = None
) -> Wait:
    """Open a wait. Opening it again under the same id returns the same wait, resolved or not."""
    check_name("The wait", id)
    check_text("What is waited for", ref or "")
    if kind == WaitKind.TIMER and due_at is None:
        raise ConfigError(f"Wait {id} is a timer and has no due time.")
    stored = None if detail is None else encode(detail)
    fresh = log.tx.run(
        "wait.insert",
        uid=log.uid, id=id, kind=kind, ref=ref, detail=stored, due_at=due_at, now=log.tx.now, number=log.cursor + 1,
    )  # fmt: skip
    wait = get(log.tx, log.uid, id)
    if fresh:
        log.append("wait.opened", rows={"wait": [wait.to_dict()]})
        notification.about_wait(log, wait)
        if due_at is not None:
            log.tx.wake_service(APPROVALS if kind == WaitKind.APPROVAL else TIMERS)
    elif (wait.kind, wait.ref) != (kind, ref):
        raise Conflict(f"Wait {id} of session {log.head.id} is for something else.")
    return wait


@holder_move
def open_for_effect(log: Log, effect_id: str) -> Wait:
    """Wait for an open effect of a session in the lineage.

    If a wait for it was resolved although it is open, by a process whose code considers the effect closed, a new wait
    is opened: with the old one the session would find it resolved, check, and wait again without end.
    """
    asked = open_.on(log, f"effect-{effect_id}", WaitKind.EFFECT, ref=effect_id)
    if asked.resolved_at is None:
        return asked
    again = [one for one in open_for(log.tx, log.uid, effect_id) if one.kind == WaitKind.EFFECT]
    return again[0] if again else open_.on(log, f"{asked.id}-{log.cursor}", WaitKind.EFFECT, ref=effect_id)


@holder_move
def park(log: Log, ids: list[str]) -> list[Wait]:
    """Wait for these and release the lease. If any is resolved already, keep running and return those."""
    if not ids:
        raise IllegalMove("A session cannot park without a wait.")
    waits = [get(log.tx, log.uid, id) for id in ids]
    resolved = [one for one in waits if one.resolved_at is not None]
    if not resolved:
        session.park_row(log, ids, crashed=any(one.kind == WaitKind.QUARANTINE for one in waits))
    return resolved


@outsider_move
def resolve(log: Log, id: str, answer: Any = None) -> Wait:
    """Resolve a wait. The same answer again changes nothing; another one is a conflict."""
    wait = get(log.tx, log.uid, id)
    if wait.resolved_at is not None:
        if wait.resolved_by == log.actor and same_json(wait.answer, answer):
            return wait
        raise Conflict(f"Wait {id} of session {log.head.id} was resolved by {wait.resolved_by} already.")
    return settle(log, wait, answer)


@outsider_move
def fire(log: Log, id: str) -> Wait:
    """Resolve a wait that is due; one that was resolved meanwhile stays as it is.

    So does one that is not due any more: the store's time may have been set back since it was found to be due.
    """
    wait = get(log.tx, log.uid, id)
    if wait.due_at is None:
        raise IllegalMove(f"Wait {id} of session {log.head.id} has no time at which it is due.")
    if wait.resolved_at is not None or wait.due_at > log.tx.now:
        return wait
    return settle(log, wait, None)


@outsider_move
def resume(log: Log) -> None:
    """Withdraw a request to pause, and resolve the waits for `paused`, in one transaction."""
    for asked in open_of_kind(log.tx, log.uid, WaitKind.PAUSED):
        settle(log, asked, None)
    log.tx.run("session.request_pause", uid=log.uid, at=None)
    woken = session.make_ready(log)
    log.append("pause.requested", {"over": True}, rows={"session": {"pause_requested_at": None} | woken})


def settle(log: Log, wait: Wait, answer: Any) -> Wait:
    """Resolve an open wait and wake its session; the part that several moves share."""
    stored = None if answer is None else encode(answer)
    number = log.cursor + 1
    if wait.kind == WaitKind.QUARANTINE:
        log.tx.run("session.forget_crashes", uid=log.uid)
    log.tx.run("wait.resolve", uid=log.uid, id=wait.id, answer=stored, by=log.actor, now=log.tx.now, number=number)
    row = {
        "id": wait.id, "answer": answer, "resolved_by": log.actor, "resolved_at": log.tx.now, "resolved_number": number,
    }  # fmt: skip
    log.append("wait.resolved", {"kind": wait.kind}, rows={"wait": [row], "session": session.make_ready(log)})
    return get(log.tx, log.uid, wait.id)


def get(tx: StoreTransaction, uid: str, id: str) -> Wait:
    row = tx.one("wait.get", uid=uid, id=id)
    if row is None:
        raise NotFound(f"The session has no wait {id}.")
    return Wait.from_row(row)


def find(tx: StoreTransaction, id: str, uid: str | None = None) -> Wait:
    """One wait by its id, of one session or of any."""
    if uid is not None:
        return get(tx, uid, id)
    rows = tx.all("wait.by_id", id=id, limit=2)
    if not rows:
        raise NotFound(f"There is no wait {id}.")
    if len(rows) > 1:
        raise Conflict(f"Several sessions have a wait {id}.", hint="Name its session.")
    return Wait.from_row(rows[0])


def for_ref(tx: StoreTransaction, ref: str) -> list[Wait]:
    """Open waits of any session for one reference: a parent's effect, a child."""
    return [Wait.from_row(row) for row in tx.all("wait.by_ref", ref=ref, limit=MANY)]


def ended_children(tx: StoreTransaction, *, limit: int = 1000) -> list[str]:
    """The uids of sessions that have ended while their parents wait for them."""
    return [row[0] for row in tx.all("wait.ended_children", limit=limit)]


def branches(tx: StoreTransaction, uid: str, *, limit: int) -> list[str]:
    """The branches of a session, which may wait for its effects."""
    return [row[0] for row in tx.all("session.branches", uid=uid, limit=limit)]


def has_branches(tx: StoreTransaction, uid: str) -> bool:
    """Whether a session has branches, which may wait for its effects."""
    return tx.one("session.a_branch", uid=uid, limit=1) is not None


def newest_due(tx: StoreTransaction, uid: str, prefix: str) -> int | None:
    """When the newest of the waits is due whose ids begin with a prefix."""
    row = tx.one("wait.newest_due", uid=uid, first=prefix, last=prefix + "~")
    return row[0] if row else None


def of_session(tx: StoreTransaction, uid: str) -> list[Wait]:
    return [Wait.from_row(row) for row in tx.all("wait.of_session", uid=uid, limit=MANY)]


def between(tx: StoreTransaction, uid: str, after: int, through: int) -> list[Wait]:
    """Waits of a session that were opened between two events, in order."""
    return [Wait.from_row(row) for row in tx.all("wait.between", uid=uid, after=after, through=through, limit=MANY)]


def get_many(tx: StoreTransaction, uid: str, ids: list[str]) -> list[Wait]:
    return [get(tx, uid, id) for id in ids]


def open_for(tx: StoreTransaction, uid: str, ref: str) -> list[Wait]:
    """Open waits of one session for one reference."""
    return [Wait.from_row(row) for row in tx.all("wait.open_for", uid=uid, ref=ref, limit=MANY)]


def open_of_session(tx: StoreTransaction, uid: str) -> list[Wait]:
    return [Wait.from_row(row) for row in tx.all("wait.open_of_session", uid=uid, limit=MANY)]


def open_of_kind(tx: StoreTransaction, uid: str, kind: WaitKind) -> list[Wait]:
    return [Wait.from_row(row) for row in tx.all("wait.open_of_kind", uid=uid, kind=kind, limit=MANY)]


def of_kind(tx: StoreTransaction, uid: str, kind: WaitKind) -> list[Wait]:
    """Waits of a session of one kind, resolved or not."""
    return [Wait.from_row(row) for row in tx.all("wait.of_kind", uid=uid, kind=kind, limit=MANY)]


def open_waits(tx: StoreTransaction, *, kind: str | None = None, limit: int = 100) -> list[Wait]:
    """Open waits of all sessions, the longest wait first. A damaged row does not hide the others."""
    return records(tx, "wait", [], "wait.open", kind=kind, limit=limit)


class WaitKey(NamedTuple):
    """The place of an open wait among all, the longest wait first."""

    since: int = -1
    session_uid: str = ""
    id: str = ""


class PlacedWait(NamedTuple):
    """A wait with the place of its session; None for a damaged row."""

    key: WaitKey
    wait: Wait | None
    place: Place


def for_a_person(tx: StoreTransaction, after: WaitKey, *, limit: int) -> list[PlacedWait]:
    """Open waits of all sessions that need a person, the longest wait first, after one of them."""
    names = Wait.columns()
    found = []
    for row in readable(tx, "wait.for_a_person", since=after.since, uid=after.session_uid, id=after.id, limit=limit):
        columns = row[: len(names)]
        given = dict(zip(names, columns, strict=True))
        key = WaitKey(given["since"], str(given["session_uid"]), str(given["id"]))
        one = None if damaged_row("wait", columns) is not None else Wait.from_row(columns)
        found.append(PlacedWait(key, one, Place(*row[len(names) :])))
    return found


def for_settled_effects(tx: StoreTransaction, *, limit: int = 1000) -> list[Wait]:
    """Open waits for effects that are settled, the longest wait first. A damaged row does not hide the others."""
    return records(tx, "wait", [], "wait.for_settled_effects", limit=limit)


class Due(NamedTuple):
    """A wait, or the deadline of a session, and when it is due."""

    session_uid: str
    id: str
    kind: str
    due_at: int

    @property
    def key(self) -> tuple[str, str]:
        return (self.session_uid, self.id)


def first_due(tx: StoreTransaction, *, approvals: bool = False, limit: int = 100) -> list[Due]:
    """What is due first, by time: waits for approvals; or all other waits, and the deadlines of sessions."""
    name = "wait.first_approvals" if approvals else "wait.first_due"
    return [Due(*row) for row in tx.all(name, limit=limit)]


def next_due(tx: StoreTransaction, after: int) -> int | None:
    """When the next wait after a time is due."""
    row = tx.one("wait.next_due", after=after)
    return row[0] if row else None
