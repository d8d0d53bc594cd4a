"""What comes into a store: whole sessions with their line, every row in one transaction.

History that came along is kept sealed, under its own uid and its own chain. Nothing that arrives overwrites anything: a
session that is here already must have the same log as far as both go; one that is sealed here may become longer,
because it went on elsewhere; one that goes on here stays as it is. The database refuses an effect that begins settled,
so each is led to where it is by moves that are legal.

The answers of people elsewhere do not count here for an effect that is not settled, unless `keep_approvals` says so: an
approval comes in undecided and without votes, and is asked here again. What was decided in this store stays decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.domain import effect as effect_domain
from perdure.domain import session as session_domain
from perdure.domain.effect import EffectState
from perdure.domain.event import genesis
from perdure.domain.fact import private_scope
from perdure.domain.session import SessionRecord, Status
from perdure.domain.state import NOT_STATE
from perdure.errors import BundleInvalid, Conflict, IllegalMove
from perdure.ids import check_name, check_text, encode
from perdure.store.move import Move, SessionHead, StoreTransaction, enter
from perdure.store.moves import effect as effects
from perdure.store.moves import session
from perdure.store.transfer.imported_approval import VoidedVotes, void_approvals
from perdure.store.transfer.session_export import MANY, TABLES, Columns, StoredSession

BATCH = 500


class SessionImport(msgspec.Struct, frozen=True, kw_only=True):
    """What comes in: the line, oldest first. With `copy_uid` all of it is history, and a branch begins at its end."""

    line: list[StoredSession]
    source: str
    copy_uid: str | None = None
    exported_at: int | None = None  # when the copy's uid was made: it may have run here, and a restore forgot it
    id: str | None = None
    take_back: bool = False
    reduced: Mapping[str, Any] = {}  # columns of the last session without the permissions that were dropped, decoded
    keep_approvals: bool = False
    signed_by: Mapping[str, str | None] = {}  # the key that signed the bundle, and the name by which it was known

    @property
    def origin(self) -> dict[str, Any]:
        """What the log says of where it came from."""
        return {"from": self.source} | ({"signed_by": self.signed_by} if self.signed_by else {})


class ImportResult(msgspec.Struct, frozen=True):
    """The session that goes on here, and whether anything changed."""

    session: SessionRecord
    changed: bool
    voided: tuple[str, ...] = ()  # approvals whose votes do not count here


def import_sessions(arrival: SessionImport, *, by: str) -> Move[ImportResult]:
    """Take a line of sessions in. Taking it in again changes nothing."""
    check_text("Who imports", by)
    if arrival.id is not None:
        check_name("The session id", arrival.id)

    def run(tx: StoreTransaction) -> ImportResult:
        _check_kinds(tx, arrival)
        if arrival.copy_uid is None:
            for one in arrival.line[:-1]:
                _keep_history(tx, one, arrival)
            return _import_live(tx, arrival.line[-1], arrival, by)
        voids = [_keep_history(tx, one, arrival) for one in arrival.line]
        made = _branch(tx, arrival.line[-1], arrival, by)
        return ImportResult(made.session, made.changed, tuple(id for one in voids for id in one.voters))

    return Move("arrival.take_in", "outsider", run)


def _check_kinds(tx: StoreTransaction, arrival: SessionImport) -> None:
    known = {kind for (kind,) in tx.all("transfer.kinds", limit=MANY)}
    if strange := {one["kind"] for kept in arrival.line for one in kept.events} - known:
        raise BundleInvalid(
            f"The bundle holds events of a kind that this version does not know: {min(strange)[:40]!r}.",
            hint="Install the version of Perdure that wrote it, or a newer one.",
        )


def _lock_existing(tx: StoreTransaction, kept: StoredSession) -> SessionHead | None:
    """The session as it is here, its row locked and its log the same as far as both go; None if it is not here."""
    row = tx.one("session.lock_head", uid=kept.uid)
    if row is None:
        return None
    head = SessionHead(*row)
    shared = min(head.cursor, len(kept.events))
    if tx.one("transfer.chain", uid=kept.uid, number=shared) != (kept.events[shared - 1]["chain"],):
        raise _conflict(head.id, "has another log here: it went on in two places.", "Look at both; neither is changed.")
    for one in kept.events[:shared]:
        if one["body"] is None:  # what was erased there is erased here
            tx.run("event.erase", uid=kept.uid, number=one["number"])
    return head


def _keep_history(tx: StoreTransaction, kept: StoredSession, arrival: SessionImport) -> VoidedVotes:
    head = _lock_existing(tx, kept)
    sealed_at = kept.session["sealed_at"] or tx.now
    if head is not None and head.cursor >= len(kept.events):
        return VoidedVotes()
    void = VoidedVotes() if arrival.keep_approvals else void_approvals(tx, kept)
    if head is None:
        if not _insert(tx, kept, id=f"{kept.session['id'][:180]}.{kept.uid[-8:]}", sealed_at=sealed_at):
            return _keep_history(tx, kept, arrival)
    else:
        _refuse_live(head)
        _extend(tx, kept, head, sealed_at=sealed_at)
    return void


def _import_live(tx: StoreTransaction, kept: StoredSession, arrival: SessionImport, by: str) -> ImportResult:
    head, changed, void = _lock_existing(tx, kept), dict(arrival.reduced), VoidedVotes()
    if not arrival.keep_approvals and (head is None or head.cursor < len(kept.events)):
        void = void_approvals(tx, kept)
    if head is None:
        id = _check_id_is_free(tx, arrival.id or kept.session["id"], kept.uid)
        if not _insert(tx, kept, id=id, sealed_at=None):
            return _import_live(tx, kept, arrival, by)
    elif head.cursor < len(kept.events):
        _refuse_live(head)
        own = session.get(tx, kept.uid)  # it was given its permissions here
        changed = {"arguments": own.arguments, "repository": own.repository}
        kept.session |= {"arguments": encode(own.arguments), "repository": own.repository}
        _extend(tx, kept, head, sealed_at=None)
        id = head.id
    elif head.cursor > len(kept.events) or head.sealed_at is None:
        return ImportResult(session.get(tx, kept.uid), False)
    elif not arrival.take_back:
        raise _conflict(
            head.id, "was moved out of this store.", "Import it elsewhere; or say that it goes on nowhere: --take-back."
        )
    else:
        tx.run("transfer.unseal", uid=kept.uid)
        id = head.id
    log = enter(tx, kept.uid, by)
    rows = {"session": {"id": id, "sealed_at": None} | changed} | void.rows
    log.append("note", {"moved": arrival.origin} | void.body, rows=rows)
    log.close()
    return ImportResult(session.get(tx, kept.uid), True, tuple(void.voters))


def _branch(tx: StoreTransaction, kept: StoredSession, arrival: SessionImport, by: str) -> ImportResult:
    """The copy: a branch of the sealed original, so that it inherits what was settled and waits for what was not."""
    uid, end = str(arrival.copy_uid), len(kept.events)
    created_at = min(tx.now, tx.now if arrival.exported_at is None else arrival.exported_at)
    if tx.one("session.get", uid=uid) is not None:
        return ImportResult(session.get(tx, uid), False)
    fresh = {
        "uid": uid, "id": _check_id_is_free(tx, arrival.id or kept.session["id"], uid), "result": None, "error": None,
        "status": Status.READY, "waiting_since": None, "cursor": 0, "chain": genesis(uid), "parent_uid": None,
        "parent_wait": None, "forked_from": kept.uid, "forked_at": end, "branch": f"{kept.session['branch']}@{end}",
        "lease_epoch": 0, "crash_count": 0, "cancel_requested_at": None, "pause_requested_at": None, "sealed_at": None,
        "tokens_in": 0, "tokens_out": 0, "cost_micros": 0, "created_at": created_at, "updated_at": tx.now, "version": 1,
    }  # fmt: skip
    if not tx.run("transfer.insert_session", **(kept.session | fresh)):
        return _branch(tx, kept, arrival, by)
    log = enter(tx, uid, by)
    shown = session.get(tx, uid).to_dict()
    rows = {"session": {name: value for name, value in shown.items() if name not in NOT_STATE}}
    log.append("session.created", {"copied": arrival.origin}, rows=rows)
    log.close()
    return ImportResult(session.get(tx, uid), True)


def _refuse_live(head: SessionHead) -> None:
    if head.sealed_at is None:
        raise _conflict(
            head.id, "goes on here, and went on elsewhere too.", "Import into the store that it was moved to."
        )


def _check_id_is_free(tx: StoreTransaction, id: str, uid: str) -> str:
    """The name, if no other session has it; that this one came in beside us just now is found out by its insert."""
    row = tx.one("session.get_by_id", id=id)
    if row is not None and SessionRecord.from_row(row).uid != uid:
        raise _conflict(id, "is there already, and is another one.", "Give this one a name of its own: --id NEW.")
    return id


def _conflict(id: str, what: str, hint: str) -> Conflict:
    return Conflict(f"Session {id} {what}", hint=hint, session=id)


def _insert(tx: StoreTransaction, kept: StoredSession, *, id: str, sealed_at: int | None) -> bool:
    """Write a session that was not here. False: somebody else did, while we were looking, and one must look again."""
    parent = kept.session["parent_uid"]
    row = kept.session | {"id": id, "sealed_at": sealed_at}
    if parent is not None and tx.one("session.get", uid=parent) is None:
        row |= {"parent_uid": None, "parent_wait": None}
    if not tx.run("transfer.insert_session", **row):
        return False
    _write(tx, kept, 0, {})
    return True


def _extend(tx: StoreTransaction, kept: StoredSession, head: SessionHead, *, sealed_at: int | None) -> None:
    """Make a sealed session as long as it became elsewhere."""
    known = {one.id: one.state for one in effects.of_session(tx, kept.uid)}
    _write(tx, kept, head.cursor, known)
    remembered = {(one["scope"], one["key"]) for one in kept.tables["fact"]}
    for scope, key, _, version, *_ in tx.all("transfer.read_fact", scope=private_scope(kept.uid), limit=MANY):
        if (scope, key) not in remembered:
            tx.run("fact.delete", scope=scope, key=key, version=version)
    epoch = max(head.lease_epoch, kept.session["lease_epoch"])  # a restore here may have raised it
    row = kept.session | {"sealed_at": sealed_at, "lease_epoch": epoch}
    for status in _shortest_path(session_domain.MOVES, head.status, row["status"])[:-1]:
        if status == Status.RUNNING:
            held = {"holder": "transfer", "nonce": "transfer", "until": tx.now, "epoch": epoch}
            tx.run("session.lease", uid=kept.uid, crash_count=row["crash_count"], **held)
        else:
            tx.run("session.set_status", uid=kept.uid, status=status, waiting_since=None)
    tx.run("transfer.update_session", **row)


def _write(tx: StoreTransaction, kept: StoredSession, after: int, known: Mapping[str, str]) -> None:
    _send(tx, "event.insert", kept.events[after:])
    for table, (_, write) in TABLES.items():
        rows = sorted(kept.tables[table], key=lambda one: one.get("number", 0))
        _send(tx, write, [one | {"parent_id": None} for one in rows] if table == "task" else rows)
        if table == "task":  # whatever their order, a node stands before it is hung up
            _send(tx, write, [one for one in rows if one["parent_id"] is not None])
        elif table == "effect":
            for one in rows:
                _advance_effect(tx, one, known.get(one["id"], EffectState.PLANNED))
    tx.touched.add(kept.uid)


def _send(tx: StoreTransaction, name: str, rows: list[Columns]) -> None:
    """Many at a time, and a look now and then: what nobody has read yet is kept in memory."""
    for number, row in enumerate(rows):
        (tx.send if number % BATCH else tx.run)(name, **row)


def _advance_effect(tx: StoreTransaction, row: Columns, state: str) -> None:
    """Lead an effect to where it is."""
    for step in _shortest_path(effect_domain.MOVES, state, row["state"])[:-1]:
        settled_at = row["settled_at"] if step in effect_domain.SETTLED else None
        tx.send("transfer.step_effect", **(row | {"state": step, "settled_at": settled_at}))
    tx.run("transfer.update_effect", **row)


def _shortest_path(moves: Mapping[Any, frozenset[Any]], old: str, new: str) -> list[str]:
    """The shortest legal way from one state to another, without the first; empty if it is there already.

    An acknowledged effect keeps its result for good, so a way through that state is the last to be taken.
    """
    ways = [[old]]
    for way in ways:
        if way[-1] == new:
            return way[1:]
        onward = sorted(moves[way[-1]], key=lambda one: (one == EffectState.ACKNOWLEDGED, one))
        ways += [[*way, one] for one in onward if one not in way]
    raise IllegalMove(f"Nothing that is {old} becomes {new}.")
