"""Moves and reads of sessions."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from perdure.clock import format_time
from perdure.domain.event import genesis
from perdure.domain.record import check_columns, check_move, same_json
from perdure.domain.session import MOVES, TERMINAL, SessionRecord, Status
from perdure.domain.state import NOT_STATE
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import ConfigError, Conflict, IllegalMove, NotFound
from perdure.ids import check_name, check_text, encode, new_uid
from perdure.store.invocation import described
from perdure.store.move import (
    Log,
    Move,
    SessionHead,
    StoreTransaction,
    expect_one,
    holder_move,
    outsider_move,
)
from perdure.store.moves import artifact, notification
from perdure.store.moves.artifact import ArtifactClaim
from perdure.store.row_check import DamagedRow, records
from perdure.store.topics import TIMERS

FOREVER = 2**62
WITHOUT_ARCHIVED, ONLY_ARCHIVED, WITH_ARCHIVED = range(3)
DESCRIBED = frozenset({"title", "owner", "queue", "priority"})
START = "start"  # the wait of a session that is to start later
DEBOUNCE = {"debounce": True}  # its detail, while later requests may change the arguments
READY: dict[str, Any] = {"status": Status.READY, "waiting_since": None}
PASSWORD = re.compile(r"://[^/@\s]*:[^/\s]*@")  # in an address


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session to create."""

    id: str
    program: str
    arguments: Any
    title: str | None = None
    repository: str | None = None
    repository_id: str | None = None
    owner: str | None = None
    queue: str = "default"
    priority: int = 0
    concurrency_key: str | None = None
    parent_uid: str | None = None
    parent_wait: str | None = None
    forked_from: str | None = None
    forked_at: int | None = None
    branch: str = "main"
    restart_number: int = 0
    restart_arguments: Any = None
    claims: tuple[ArtifactClaim, ...] = ()
    lines: tuple[dict[str, Any], ...] = ()  # the first lines of its transcript
    under_policy: bool = False  # only a process with a policy may run it
    model: str | None = None
    receives: bool = False  # its program may read messages although it is no agent
    uid: str | None = None  # given for a child: created again after a restore, it is the same child
    not_before: int | None = None  # it waits until then
    debounced: bool = False  # and later requests may change its arguments
    max_retries: int | None = None
    deadline_at: int | None = None
    pinned_at: int | None = None
    code_version: str | None = None  # of the session that it is a branch of
    workspace: str | None = None
    schedule_uid: str | None = None
    scheduled_at: int | None = None
    repository_policy: dict[str, str] | None = None  # of the commit at which it starts: its text, and the commit
    schedule_start: dict[str, Any] | None = None  # how its schedule started it (`requester.schedule_start`)


@described
def create(new: NewSession, *, by: str) -> Move[SessionRecord]:
    """Create a session. A known id with the same program and arguments returns that session, else it is a conflict."""
    check_name("The session id", new.id)
    check_name("The program", new.program)
    check_text("The creator of the session", by)
    for field in ("title", "repository", "repository_id", "owner", "queue", "concurrency_key", "branch", "model"):
        check_text(f"The session's {field}", getattr(new, field) or "")
    if PASSWORD.search(new.repository or ""):
        raise ConfigError(
            "The address of the repository holds a password.", hint="Remove it; git asks for it when needed."
        )
    arguments, uid = encode(new.arguments), new.uid or new_uid()

    def run(tx: StoreTransaction) -> SessionRecord:
        columns = _columns(new, tx.now) | {"uid": uid, "arguments": arguments, "chain": genesis(uid)}
        for origin in {new.forked_from, new.parent_uid} - {None}:
            _refuse_removed(tx, str(origin))
        if tx.run("session.insert", **columns, now=tx.now) == 0:
            return _existing(tx, new)
        if new.parent_uid is not None:
            tx.send("restore.exempt_child", uid=uid, parent_uid=new.parent_uid)
        log = Log(tx, SessionHead(*_head_of_new(uid, new.id)), by)
        shown = get(tx, uid).to_dict()
        rows = {"session": {k: v for k, v in shown.items() if k not in NOT_STATE}}
        log.append("session.created", _about(new) or None, rows=rows)
        if columns["status"] == Status.WAITING:
            _wait_until(log, new)
        else:
            tx.wake(new.queue)
        if new.deadline_at is not None:
            tx.wake_service(TIMERS)
        for one in new.claims:
            artifact.claim(log, one)
        for line in new.lines:
            log.append("message", line)
        log.close()
        return get(tx, uid)

    return Move("session.create", "outsider", run)


def _about(new: NewSession) -> dict[str, Any]:
    """What the log says of a new session beside its row."""
    about = {"receives": new.receives, "schedule": new.schedule_start, "repository_policy": new.repository_policy}
    return {name: value for name, value in about.items() if value}


def _columns(new: NewSession, now: int) -> dict[str, Any]:
    """The columns of a new session's row."""
    columns = msgspec.structs.asdict(new)
    elsewhere = ("claims", "lines", "under_policy", "receives", "not_before", "debounced")
    for name in (*elsewhere, "repository_policy", "schedule_start"):
        del columns[name]
    columns["policy_at"] = now if new.under_policy else None
    columns["restart_arguments"] = encode(new.restart_arguments) if new.restart_number else None
    is_later = new.not_before is not None and new.not_before > now
    return columns | ({"status": Status.WAITING, "waiting_since": now} if is_later else READY)


def _wait_until(log: Log, new: NewSession) -> None:
    """Open the wait of a session that is to start later."""
    detail = encode(DEBOUNCE) if new.debounced else None
    columns = {"id": START, "kind": WaitKind.TIMER, "ref": None, "detail": detail, "due_at": new.not_before}
    log.tx.run("wait.insert", uid=log.uid, now=log.tx.now, number=log.cursor + 1, **columns)
    row = Wait.from_row(log.tx.one("wait.get", uid=log.uid, id=START) or ())
    log.append("wait.opened", rows={"wait": [row.to_dict()]})
    log.tx.wake_service(TIMERS)


def _refuse_removed(tx: StoreTransaction, uid: str) -> None:
    """Refuse a branch or a child of a session that was removed meanwhile: it would not know what was done, and repeat
    it. The lock makes a removal come before this check, or after the new session, which then prevents it.
    """
    if tx.one("session.lock_head", uid=uid) is not None and (origin := get(tx, uid)).removed_at is not None:
        raise removed(origin)


def _head_of_new(uid: str, id: str) -> tuple[Any, ...]:
    return (uid, id, Status.READY, 0, genesis(uid), None, None, 0, None, 0, None, None, None, None, 1)


def _existing(tx: StoreTransaction, new: NewSession) -> SessionRecord:
    row = None if new.uid is None else tx.one("session.get", uid=new.uid)
    there = get_by_id(tx, new.id) if row is None else SessionRecord.from_row(row)  # whatever it is called now
    if there.removed_at is not None:
        raise removed(there)
    if there.program != new.program or not same_json(there.arguments, new.arguments):
        raise Conflict(f"Session {new.id} exists already, with another program or other arguments.")
    if new.forked_from is not None and (there.forked_from, there.forked_at) != (new.forked_from, new.forked_at):
        raise Conflict(f"Session {new.id} exists already, and is not this branch.")
    return there


@holder_move
def release(log: Log) -> None:
    """Release the session; another worker may continue it."""
    _unlease(log, Status.READY, "session.released")


def _unlease(log: Log, status: Status, kind: str, *, crash_count: int = 0, **body: Any) -> None:
    check_move("session", MOVES, Status(log.head.status), status)
    since = log.tx.now if status is Status.WAITING else None
    log.tx.run(
        "session.unlease", uid=log.uid, status=status, waiting_since=since, crash_count=crash_count, suspected_at=None
    )
    log.append(kind, body, rows={"session": {"status": status, "waiting_since": since}})
    if status is Status.READY:
        log.tx.wake(log.head.queue)


def park_row(log: Log, waits: list[str], *, crashed: bool = False) -> None:
    """Park the session's row; `wait.park` decides whether it may. A quarantined session keeps its crash count."""
    crashes, *_ = (crashed and log.tx.one("lease.crash_record", uid=log.uid)) or (0,)
    _unlease(log, Status.WAITING, "session.parked", crash_count=crashes, waits=waits)


@holder_move
def finish(log: Log, status: Status, *, result: Any = None, error: Any = None) -> None:
    """End the session for good."""
    if status not in TERMINAL:
        raise ConfigError(f"A session does not finish as {status}.")
    if status is Status.DONE and error is not None:
        raise ConfigError("A session that is done has a result and no error.")
    check_move("session", MOVES, Status(log.head.status), status)
    stored = None if status is not Status.DONE else encode(result)
    failure = None if error is None else encode(error)
    log.tx.run("session.finish", uid=log.uid, status=status, result=stored, error=failure)
    shown = result if status is Status.DONE else None
    log.append(
        "session.finished",
        rows={"session": {"status": status, "waiting_since": None, "result": shown, "error": error}},
    )
    if status is Status.FAILED and get(log.tx, log.uid).parent_uid is None:  # a child's failure is its parent's
        notification.about_failure(log, error)


@holder_move
def restart(log: Log, arguments: Any) -> int:
    """Restart the program in the same session; return the new restart number."""
    number = log.head.restart_number + 1
    log.tx.run("session.restart", uid=log.uid, restart_number=number, arguments=encode(arguments))
    log.append("session.restarted", rows={"session": {"restart_number": number, "restart_arguments": arguments}})
    return number


def request_cancel(log: Log, because: str | None = None) -> None:
    """Record a request to cancel; a holder honours it between acts (`session_end.cancel`)."""
    refuse_finished(log)
    if log.head.cancel_requested_at is not None:
        return
    log.tx.run("session.request_cancel", uid=log.uid, now=log.tx.now)
    reason = None if because is None else {"because": because}
    log.append("cancel.requested", reason, rows={"session": {"cancel_requested_at": log.tx.now}})


@outsider_move
def request_pause(log: Log) -> None:
    """Request a pause at the next safe point."""
    refuse_finished(log)
    if log.head.pause_requested_at is not None:
        return
    log.tx.run("session.request_pause", uid=log.uid, at=log.tx.now)
    log.append("pause.requested", rows={"session": {"pause_requested_at": log.tx.now}})


@outsider_move
def wake_up(log: Log) -> None:
    """Make a waiting session ready although no wait was resolved, because it can continue."""
    if changed := make_ready(log):
        log.append("session.released", rows={"session": changed})


@outsider_move
def describe(log: Log, /, *, expected: int, **changes: Any) -> int:
    """Change title, owner, queue or priority as of the version that was read; return the new version."""
    check_columns(SessionRecord, changes, DESCRIBED)
    now = get(log.tx, log.uid)
    columns = {name: getattr(now, name) for name in DESCRIBED} | changes
    version = expected + 1
    changed = log.tx.run("session.describe", uid=log.uid, was=expected, version=version, **columns)
    expect_one(changed, f"Session {now.id} changed since version {expected} was read; it is at {now.version}.")
    log.append("session.described", rows={"session": changes | {"version": version}})
    if log.head.status == Status.READY:
        log.tx.wake(columns["queue"])
    return version


def set_archived(log: Log, at: int | None) -> None:
    """Hide a session from the list, or with None show it again."""
    if (get(log.tx, log.uid).archived_at is None) != (at is None):
        log.tx.run("session.archive", uid=log.uid, at=at)
        log.append("session.described", rows={"session": {"archived_at": at}})


def make_ready(log: Log) -> dict[str, Any]:
    """Make a waiting session ready, and return the columns that changed.

    A session in another state stays in it, and so does one that is to start later: only the end of that wait begins it.
    """
    if log.head.status != Status.WAITING or not log.tx.run("session.enqueue", uid=log.uid):
        return {}
    log.tx.wake(log.head.queue)
    return {"status": Status.READY, "waiting_since": None}


def refuse_finished(log: Log) -> None:
    if Status(log.head.status) in TERMINAL:
        raise IllegalMove(f"Session {log.head.id} is {log.head.status} already.")


def get(tx: StoreTransaction, uid: str) -> SessionRecord:
    row = tx.one("session.get", uid=uid)
    if row is None:
        raise NotFound(f"There is no session {uid}.")
    return SessionRecord.from_row(row)


def get_by_id(tx: StoreTransaction, id: str) -> SessionRecord:
    row = tx.one("session.get_by_id", id=id)
    if row is None:
        raise NotFound(f"There is no session {id}.", hint="`perdure ls` lists the sessions of this store.")
    return SessionRecord.from_row(row)


def numbered(tx: StoreTransaction, prefix: str) -> list[SessionRecord]:
    """The sessions whose ids are a prefix and 1, 2, 3, …, in order; one may be removed, or of any program."""
    found: list[SessionRecord] = []
    while (row := tx.one("session.get_by_id", id=f"{prefix}{len(found) + 1}")) is not None:
        found.append(SessionRecord.from_row(row))
    return found


def removed(found: SessionRecord) -> Conflict:
    """The error for the use of an id whose session was removed."""
    said = f"Session {found.id} was removed on {format_time(found.removed_at or 0)}; its id is not used again."
    return Conflict(said, hint="Choose another id.", session=found.id)


def children(tx: StoreTransaction, uid: str, *, limit: int = 1_000_000) -> list[str]:
    """The uids of a session's children that have not ended."""
    return [row[0] for row in tx.all("session.children", uid=uid, limit=limit)]


def has_acted(tx: StoreTransaction, uid: str) -> bool:
    """Whether its program has recorded anything: a step, an effect, a question, a timer, a child."""
    return tx.one("session.has_acted", uid=uid) is not None


def with_prefix(tx: StoreTransaction, prefix: str, *, limit: int) -> list[SessionRecord]:
    """Sessions whose id or uid has this prefix, by id."""
    rows = tx.all("session.get_by_prefix", prefix=prefix, beyond=prefix + "\U0010ffff", limit=limit)
    return [SessionRecord.from_row(row) for row in rows]


def find(tx: StoreTransaction, name: str) -> SessionRecord:
    """A session by its id, or by a unique prefix of its id or uid."""
    check_text("The session id", name)
    if row := tx.one("session.get_by_id", id=name):
        found = SessionRecord.from_row(row)
        if found.removed_at is not None:
            raise NotFound(removed(found).message, hint="`perdure ls` lists the sessions of this store.")
        return found
    rows = tx.all("session.get_by_prefix", prefix=name, beyond=name + "\U0010ffff", limit=3) if name else []
    if len(rows) > 1:
        names = ", ".join(SessionRecord.from_row(row).id for row in rows)
        raise Conflict(f"Several sessions begin with {name!r}: {names}.", hint="Give more characters.")
    if not rows:
        raise NotFound(f"There is no session {name!r}.", hint="`perdure ls` lists the sessions of this store.")
    return SessionRecord.from_row(rows[0])


class Before(NamedTuple):
    """Where a page of sessions begins: after the session of this time and uid."""

    updated_at: int
    uid: str


def page(
    tx: StoreTransaction,
    *,
    status: str | None = None,
    waiting_for: str | None = None,
    owner: str | None = None,
    repository: str | None = None,
    before: SessionRecord | Before | None = None,
    limit: int = 100,
    archived: int = WITH_ARCHIVED,
    damaged: list[DamagedRow] | None = None,
) -> list[SessionRecord]:
    """One page of sessions, the most recently updated first, after `before`.

    With `damaged`, rows that cannot be read are added to it, and the others are returned.
    """
    return _records(
        tx, damaged, "session.list",
        status=status, waiting_for=waiting_for, owner=owner, repository=repository, limit=limit,
        archived=archived, before=before.updated_at if before else FOREVER, before_uid=before.uid if before else "",
    )  # fmt: skip


def repositories(tx: StoreTransaction, *, limit: int = 1_000_000) -> list[str]:
    """The repositories that sessions work in."""
    return [row[0] for row in tx.all("session.repositories", limit=limit)]


def waiting_for_person(
    tx: StoreTransaction,
    *,
    status: str | None = None,
    owner: str | None = None,
    repository: str | None = None,
    limit: int = 100,
    damaged: list[DamagedRow] | None = None,
) -> list[SessionRecord]:
    """Sessions that wait for input of a person, the most recently updated first."""
    asked = {"status": status, "owner": owner, "repository": repository, "limit": limit}
    return _records(tx, damaged, "session.for_a_person", **asked)


def expired(tx: StoreTransaction, *, limit: int = 100, damaged: list[DamagedRow] | None = None) -> list[SessionRecord]:
    """Running sessions whose lease has ended: the holder stopped renewing it."""
    return _records(tx, damaged, "session.expired", now=tx.now, limit=limit)


def _records(tx: StoreTransaction, damaged: list[DamagedRow] | None, name: str, **values: Any) -> list[SessionRecord]:
    if damaged is not None:
        return records(tx, "session", damaged, name, **values)
    return [SessionRecord.from_row(row) for row in tx.all(name, **values)]


def count(tx: StoreTransaction) -> dict[str, int]:
    return dict(tx.all("session.count"))
