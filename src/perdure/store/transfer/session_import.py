"""Import of sessions: whole sessions with their lineage, every row in one transaction.

Imported history is stored sealed, under its own uid and its own chain. An import overwrites nothing: a session that
exists here must have the same log as far as both go; a sealed one may become longer, because it continued in another
store; one that continues here stays as it is. The database refuses an effect that is inserted as settled, so each one
is brought to its state by legal moves.

Approvals of other stores do not count here for an effect that is not settled, unless `keep_approvals` is set: an
approval is imported undecided and without votes, and is requested here again. Decisions of this store stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.domain import effect as effect_domain
from perdure.domain import session as session_domain
from perdure.domain.approval import ApprovalDecision
from perdure.domain.effect import EffectState
from perdure.domain.event import genesis
from perdure.domain.fact import private_scope
from perdure.domain.session import SessionRecord, Status
from perdure.domain.state import NOT_STATE
from perdure.domain.wait import WaitKind
from perdure.errors import BundleInvalid, Conflict, IllegalMove
from perdure.ids import check_name, check_text, encode
from perdure.store.move import Log, Move, SessionHead, StoreTransaction, enter
from perdure.store.moves import effect as effects
from perdure.store.moves import session, wait
from perdure.store.topics import TIMERS
from perdure.store.transfer.arrival import ImportResult, SessionImport, check_may_keep_owner
from perdure.store.transfer.imported_approval import VoidedVotes, void_approvals
from perdure.store.transfer.session_export import MANY, TABLES, Columns, StoredSession

BATCH = 500
# What is true of a session only in the store that it came from. Its log says the first part; sealed history keeps that.
RECORDED: Columns = dict.fromkeys(("code_version", "pinned_at", "schedule_uid", "scheduled_at", "repository_id"))
UNRECORDED: Columns = {"turn": 0, "workspace": None, "suspected_at": None, "lease_alone": None}
UNDECIDED: Columns = dict.fromkeys(("decision", "decided_at", "consumed_by", "withdrawn_at"))
LOCAL: Columns = RECORDED | UNRECORDED


def import_sessions(request: SessionImport, *, by: str) -> Move[ImportResult]:
    """Import a lineage of sessions. A second import changes nothing."""
    check_text("Who imports", by)
    if request.id is not None:
        check_name("The session id", request.id)

    def run(tx: StoreTransaction) -> ImportResult:
        _check_kinds(tx, request)
        check_may_keep_owner(tx, request)
        if request.copy_uid is None:
            for one in request.line[:-1]:
                _keep_history(tx, one, request)
            return _import_live(tx, request.line[-1], request, by)
        voids = [_keep_history(tx, one, request) for one in request.line]
        made = _branch(tx, request.line[-1], request, by)
        return ImportResult(made.session, made.changed, tuple(id for one in voids for id in one.voters))

    return Move("session_import.import_sessions", "outsider", run)


def set_folder(uids: Sequence[str], folder: str, place: Mapping[str, Any], *, by: str) -> Move[ImportResult]:
    """Give imported sessions without a folder one; the first continues here, the others are its history.

    Sealed history gets no event: its log is closed.
    """

    def run(tx: StoreTransaction) -> ImportResult:
        found = session.get(tx, uids[0])
        known = place.get("repository_id")
        changed = bool(tx.run("transfer.set_folder", uid=found.uid, repository=folder, repository_id=known))
        if changed and found.sealed_at is None:
            log = enter(tx, found.uid, by)
            said = {"folder": folder} | {name: one for name, one in place.items() if one and name != "repository_id"}
            log.append("note", said, rows={"session": {"repository": folder, "repository_id": known}})
            log.close()
        for uid in uids[1:]:
            tx.run("transfer.set_folder", uid=uid, repository=folder, repository_id=None)
        return ImportResult(session.get(tx, found.uid), changed)

    return Move("session_import.set_folder", "outsider", run)


def _check_kinds(tx: StoreTransaction, request: SessionImport) -> None:
    known = {kind for (kind,) in tx.all("transfer.kinds", limit=MANY)}
    if strange := {one["kind"] for stored in request.line for one in stored.events} - known:
        raise BundleInvalid(
            f"The bundle holds events of a kind that this version does not know: {min(strange)[:40]!r}.",
            hint="Install the version of Perdure that wrote it, or a newer one.",
        )


def _lock_existing(tx: StoreTransaction, stored: StoredSession) -> SessionHead | None:
    """Lock the session that exists here and check that the logs agree as far as both go; None if it is not here."""
    row = tx.one("session.lock_head", uid=stored.uid)
    if row is None:
        return None
    head = SessionHead(*row)
    if head.removed_at is not None:
        raise session.removed(session.get(tx, stored.uid))
    shared = min(head.cursor, len(stored.events))
    if tx.one("transfer.chain", uid=stored.uid, number=shared) != (stored.events[shared - 1]["chain"],):
        raise _conflict(
            head.id, "has another log here: it continued in two stores.", "Compare both; neither is changed."
        )
    for one in stored.events[:shared]:
        if one["body"] is None:  # what was erased in the other store is erased here
            tx.run("event.erase", uid=stored.uid, number=one["number"])
    return head


def _keep_history(tx: StoreTransaction, stored: StoredSession, request: SessionImport) -> VoidedVotes:
    head = _lock_existing(tx, stored)
    sealed_at = stored.session["sealed_at"] or tx.now
    if head is not None and head.cursor >= len(stored.events):
        return VoidedVotes()
    void = void_approvals(tx, stored, keep=request.keep_approvals)
    if head is None:
        if not _insert(tx, stored, id=f"{stored.session['id'][:180]}.{stored.uid[-8:]}", sealed_at=sealed_at):
            return _keep_history(tx, stored, request)
    else:
        _refuse_live(head)
        _extend(tx, stored, head, sealed_at=sealed_at)
    return void


def _import_live(tx: StoreTransaction, stored: StoredSession, request: SessionImport, by: str) -> ImportResult:
    head, changed, void = _lock_existing(tx, stored), dict(request.reduced), VoidedVotes()
    if head is None or head.cursor < len(stored.events):
        void = void_approvals(tx, stored, keep=request.keep_approvals)
    if head is None:
        id = _check_id_is_free(tx, request.id or stored.session["id"], stored.uid)
        own = {"repository_id": request.repository_id, "owner": request.owner_of(tx, stored, by)}
        if not _insert(tx, stored, id=id, sealed_at=None, own=own):
            return _import_live(tx, stored, request, by)
        changed |= RECORDED | own
    elif head.cursor < len(stored.events):
        _refuse_live(head)
        was = session.get(tx, stored.uid)  # its permissions were granted here
        kept = {"repository": was.repository, "owner": was.owner}
        own = {"repository_id": was.repository_id}
        changed = {"arguments": was.arguments} | kept | RECORDED | own
        stored.session |= {"arguments": encode(was.arguments)} | kept
        _extend(tx, stored, head, sealed_at=None, own=own)
        id = head.id
    elif head.cursor > len(stored.events) or head.sealed_at is None:
        return ImportResult(session.get(tx, stored.uid), False)
    elif not request.take_back:
        raise _conflict(
            head.id, "was moved out of this store.", "Import it in another store, or take it back with --take-back."
        )
    else:
        tx.run("transfer.unseal", uid=stored.uid)
        id = head.id
    log = enter(tx, stored.uid, by)
    rows = {"session": {"id": id, "sealed_at": None} | changed} | void.rows
    log.append("note", {"moved": request.origin} | request.policy | void.body, rows=rows)
    _leave_line(log)
    log.close()
    tx.wake(log.head.queue)
    tx.wake_service(TIMERS)
    return ImportResult(session.get(tx, stored.uid), True, tuple(void.voters))


def _leave_line(log: Log) -> None:
    """A session that waited for earlier ones of its schedule waits no longer: here it belongs to no schedule."""
    if session.get(log.tx, log.uid).schedule_uid is None:
        for asked in wait.open_of_kind(log.tx, log.uid, WaitKind.SLOT):
            if asked.id == session.START:
                wait.settle(log, asked, None)


def _branch(tx: StoreTransaction, stored: StoredSession, request: SessionImport, by: str) -> ImportResult:
    """Create the copy: a branch of the sealed original, which inherits settled effects and waits for the others."""
    uid, end = str(request.copy_uid), len(stored.events)
    created_at = min(tx.now, tx.now if request.exported_at is None else request.exported_at)
    if tx.one("session.get", uid=uid) is not None:
        if (there := session.get(tx, uid)).removed_at is not None:
            raise session.removed(there)
        return ImportResult(there, False)
    fresh = {
        "uid": uid, "id": _check_id_is_free(tx, request.id or stored.session["id"], uid), "result": None, "error": None,
        "status": Status.READY, "waiting_since": None, "cursor": 0, "chain": genesis(uid), "parent_uid": None,
        "parent_wait": None, "forked_from": stored.uid, "forked_at": end, "branch": f"{stored.session['branch']}@{end}",
        "lease_epoch": 0, "crash_count": 0, "cancel_requested_at": None, "pause_requested_at": None, "sealed_at": None,
        "tokens_in": 0, "tokens_out": 0, "cost_micros": 0, "created_at": created_at, "updated_at": tx.now, "version": 1,
        "interrupt_requested_at": None, "archived_at": None, "retries": None, "removed_at": None,
        "repository_id": request.repository_id, "owner": request.owner_of(tx, stored, by),
    }  # fmt: skip
    if not tx.run(
        "transfer.insert_session", **(stored.session | LOCAL | {"slot_since": None, "deadline_at": None} | fresh)
    ):
        return _branch(tx, stored, request, by)
    log = enter(tx, uid, by)
    shown = session.get(tx, uid).to_dict()
    rows = {"session": {name: value for name, value in shown.items() if name not in NOT_STATE}}
    log.append("session.created", {"copied": request.origin}, rows=rows)
    if request.policy:
        log.append("note", request.policy)
    log.close()
    tx.wake(log.head.queue)
    return ImportResult(session.get(tx, uid), True)


def _refuse_live(head: SessionHead) -> None:
    if head.sealed_at is None:
        raise _conflict(
            head.id,
            "continues here, and continued in another store too.",
            "Import into the store that it was moved to.",
        )


def _check_id_is_free(tx: StoreTransaction, id: str, uid: str) -> str:
    """The id, if no other session has it; a concurrent import of the same session is detected by the insert."""
    row = tx.one("session.get_by_id", id=id)
    if row is not None and SessionRecord.from_row(row).uid != uid:
        raise _conflict(id, "exists already, and is another session.", "Choose another name with --id NEW.")
    return id


def _conflict(id: str, what: str, hint: str) -> Conflict:
    return Conflict(f"Session {id} {what}", hint=hint, session=id)


def _insert(
    tx: StoreTransaction, stored: StoredSession, *, id: str, sealed_at: int | None, own: Columns | None = None
) -> bool:
    """Insert a session. False: another process inserted it meanwhile, and the caller must start again."""
    parent = stored.session["parent_uid"]
    row = stored.session | _reset(sealed_at) | {"id": id, "sealed_at": sealed_at} | (own or {})
    if parent is not None and tx.one("session.get", uid=parent) is None:
        row |= {"parent_uid": None, "parent_wait": None}
    if not tx.run("transfer.insert_session", **row):
        return False
    _write(tx, stored, 0, {})
    return True


def _reset(sealed_at: int | None) -> Columns:
    """The columns that an imported row does not keep."""
    return LOCAL if sealed_at is None else UNRECORDED


def _extend(
    tx: StoreTransaction, stored: StoredSession, head: SessionHead, *, sealed_at: int | None, own: Columns | None = None
) -> None:
    """Extend a sealed session by what was added in another store."""
    known = {one.id: one.state for one in effects.of_session(tx, stored.uid)}
    _write(tx, stored, head.cursor, known)
    remembered = {(one["scope"], one["key"]) for one in stored.tables["fact"]}
    for scope, key, _, version, *_ in tx.all("transfer.read_fact", scope=private_scope(stored.uid), limit=MANY):
        if (scope, key) not in remembered:
            tx.run("fact.delete", scope=scope, key=key, version=version)
    epoch = max(head.lease_epoch, stored.session["lease_epoch"])  # a restore here may have raised it
    row = stored.session | _reset(sealed_at) | {"sealed_at": sealed_at, "lease_epoch": epoch} | (own or {})
    for status in _shortest_path(session_domain.MOVES, head.status, row["status"])[:-1]:
        if status == Status.RUNNING:
            held = {"holder": "transfer", "nonce": "transfer", "until": tx.now, "epoch": epoch, "alone": None}
            held |= {"suspected_at": None, "code_version": None}
            tx.run("session.lease", uid=stored.uid, crash_count=row["crash_count"], **held)
        else:
            tx.run("session.set_status", uid=stored.uid, status=status, waiting_since=None)
    tx.run("transfer.update_session", **row)


def _write(tx: StoreTransaction, stored: StoredSession, after: int, known: Mapping[str, str]) -> None:
    _send(tx, "event.insert", stored.events[after:])
    for table, (_, write) in TABLES.items():
        rows = sorted(stored.tables[table], key=lambda one: one.get("number", 0))
        if table == "approval":
            rows = [one | UNDECIDED if one["decision"] == ApprovalDecision.APPROVED else one for one in rows]
        _send(tx, write, [one | {"parent_id": None} for one in rows] if table == "task" else rows)
        if table == "task":  # insert every task before setting its parent
            _send(tx, write, [one for one in rows if one["parent_id"] is not None])
        elif table == "vote":  # the database counts the votes when an approval is decided
            _send(tx, "transfer.update_approval", stored.tables["approval"])
        elif table == "effect":
            for one in rows:
                _advance_effect(tx, one, known.get(one["id"], EffectState.PLANNED))
    tx.touched.add(stored.uid)


def _send(tx: StoreTransaction, name: str, rows: list[Columns]) -> None:
    """Send rows in batches, and wait for an answer after each: unread answers are stored in memory."""
    for number, row in enumerate(rows):
        (tx.send if number % BATCH else tx.run)(name, **row)


def _advance_effect(tx: StoreTransaction, row: Columns, state: str) -> None:
    """Bring an effect to its state by legal moves."""
    for step in _shortest_path(effect_domain.MOVES, state, row["state"])[:-1]:
        settled_at = row["settled_at"] if step in effect_domain.SETTLED else None
        tx.send("transfer.step_effect", **(row | {"state": step, "settled_at": settled_at}))
    tx.run("transfer.update_effect", **row)


def _shortest_path(moves: Mapping[Any, frozenset[Any]], old: str, new: str) -> list[str]:
    """The shortest legal path from one state to another, without the first; empty if both are the same.

    An acknowledged effect keeps its result, so a path through that state is the last choice.
    """
    ways = [[old]]
    for way in ways:
        if way[-1] == new:
            return way[1:]
        onward = sorted(moves[way[-1]], key=lambda one: (one == EffectState.ACKNOWLEDGED, one))
        ways += [[*way, one] for one in onward if one not in way]
    raise IllegalMove(f"No legal moves lead from {old} to {new}.")
