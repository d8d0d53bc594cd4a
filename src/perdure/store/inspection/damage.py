"""Damaged rows of a store. They are found and reported here, and never repaired.

A row is damaged when a text in it is not UTF-8, when JSON in it is incomplete, when a value has the wrong type or is
not allowed in its column; a log also when an event is missing, changed or out of order; and any row when it contradicts
the log of its session. Code that reads many sessions uses `readable` or `records`, so that one damaged row is reported
and the others are still returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from typing import Any, get_type_hints

import msgspec

from perdure.domain.approval import ApprovalDecision
from perdure.domain.artifact import Retention
from perdure.domain.contradiction import LogView, contradictions
from perdure.domain.effect import AttemptOutcome, EffectState, Replay, Verdict
from perdure.domain.fact import private_scope
from perdure.domain.inbox import InboxMode
from perdure.domain.record import Record
from perdure.domain.session import Status
from perdure.domain.task import TaskState
from perdure.domain.wait import WaitKind
from perdure.errors import Damaged
from perdure.ids import decode
from perdure.store.databases.sqlite.engine import SQLiteTransaction
from perdure.store.move import Row, StoreTransaction
from perdure.store.statements import RECORDS

Columns = dict[str, Any]

PAGE = 1000
TABLES = ("wait", "inbox", "step", "task", "decision", "fact", "effect", "attempt", "approval", "vote", "artifact")
KEYS: dict[str, tuple[str, ...]] = {
    "session": ("uid",),
    "event": ("session_uid", "number"),
    "wait": ("session_uid", "id"),
    "inbox": ("session_uid", "id"),
    "step": ("session_uid", "restart_number", "scope", "name", "argument_digest", "occurrence"),
    "task": ("session_uid", "id"),
    "decision": ("session_uid", "id"),
    "fact": ("scope", "key"),
    "effect": ("session_uid", "id"),
    "attempt": ("session_uid", "effect_id", "number"),
    "approval": ("session_uid", "id"),
    "vote": ("session_uid", "approval_id", "voter"),
    "artifact": ("session_uid", "digest"),
}
CHOICES: dict[tuple[str, str], type[StrEnum]] = {
    ("session", "status"): Status,
    ("wait", "kind"): WaitKind,
    ("inbox", "mode"): InboxMode,
    ("task", "state"): TaskState,
    ("effect", "state"): EffectState,
    ("effect", "replay"): Replay,
    ("effect", "verdict"): Verdict,
    ("attempt", "outcome"): AttemptOutcome,
    ("approval", "decision"): ApprovalDecision,
    ("vote", "decision"): ApprovalDecision,
    ("artifact", "retention"): Retention,
}


class DamagedRow(msgspec.Struct, frozen=True):
    """A damaged row: its session, its table and key, and the problem."""

    session: str | None  # the session's id, or its uid where the id cannot be read
    table: str
    key: Columns
    what: str

    def __str__(self) -> str:
        key = ", ".join(f"{name} {value}" for name, value in self.key.items())
        whose = f"Session {self.session}" if self.session is not None else "No session"
        return f"{whose}: table {self.table}{f', {key}' if key else ''}: {self.what}."


def readable(tx: StoreTransaction, name: str, /, **values: Any) -> list[Row]:
    """All rows of a named query; a text that is not UTF-8 is returned as bytes."""
    try:
        return tx.all(name, **values)
    except Damaged:
        if isinstance(tx, SQLiteTransaction):
            return tx.raw(name, **values)
        raise


def records(tx: StoreTransaction, table: str, damaged: list[DamagedRow], name: str, /, **values: Any) -> list[Any]:
    """The records of a named query that can be read; the others are added to `damaged`."""
    try:
        return [RECORDS[table].from_row(row) for row in tx.all(name, **values)]
    except Damaged:
        pass
    found = []
    for row in readable(tx, name, **values):
        if (bad := _damaged(table, row)) is None:
            found.append(RECORDS[table].from_row(row))
        elif bad not in damaged:
            damaged.append(bad)
    return found


def _damaged(table: str, row: Row, session: str | None = None) -> DamagedRow | None:
    """The description of a damaged row; None if it is sound. `session` is the id of its session where that is known."""
    columns = dict(zip(RECORDS[table].columns(), row, strict=True))
    if (what := wrong(table, columns)) is None:
        return None
    whose = session or _text(columns.get("id") if table == "session" else columns.get("session_uid"))
    return DamagedRow(whose, table, {name: _text(columns[name]) for name in KEYS[table] if name != "session_uid"}, what)


def wrong(table: str, columns: Columns) -> str | None:
    """The problem of a stored row; None if there is none."""
    try:
        check(table, columns)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
        return str(error).rstrip(".")
    return None


def check(table: str, row: Columns) -> None:
    """Raise an error for a damaged row, given its columns as stored."""
    record = RECORDS[table]
    for name, value in row.items():
        if isinstance(value, bytes):
            raise ValueError(f"{name} is not UTF-8 text")
        if isinstance(value, str) and "\0" in value:
            raise ValueError(f"{name} contains a NUL")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError(f"{name} is too large")
        if value is not None and (table, name) in CHOICES and value not in set(CHOICES[table, name]):
            raise ValueError(f"{name} cannot be {str(value)[:40]!r}")
        if value is not None and name in record.json_columns:
            _check_json(name, value)
    msgspec.convert(row, record, strict=True)


def _check_json(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{name} is not JSON as text")
    try:
        decode(value)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"{name} is not JSON: {error}") from None


@cache
def nullable(record: type[Record]) -> frozenset[str]:
    """Columns that may be null, and so may be missing: JSON always may here; the database checks it again."""
    hints = get_type_hints(record)
    return frozenset(
        name
        for name in record.columns()
        if name in record.json_columns or type(None) in getattr(hints[name], "__args__", ())
    )


def file_damage(tx: StoreTransaction) -> list[str]:
    """The problems that SQLite finds in its own file."""
    if not isinstance(tx, SQLiteTransaction):
        return []
    return [row[0] for row in tx.all("doctor.damage") if row[0] != "ok"]


def session_uids(tx: StoreTransaction) -> Iterator[str | DamagedRow]:
    """Every session, a page at a time; one whose uid cannot be read is reported as damaged."""
    after = ""
    while page := [row[0] for row in readable(tx, "doctor.session_uids", after=after, limit=PAGE)]:
        yield from (
            uid if isinstance(uid, str) else DamagedRow(None, "session", {"uid": _text(uid)}, "uid is not UTF-8 text")
            for uid in page
        )
        names = [uid for uid in page if isinstance(uid, str)]
        if len(page) < PAGE or not names:
            return
        after = names[-1]


def shared_facts(tx: StoreTransaction) -> list[DamagedRow]:
    """Damaged facts that are shared by sessions."""
    rows = readable(tx, "fact.list", scope=None, limit=2**31)
    found = filter(None, (_damaged("fact", row) for row in rows))
    return [one for one in found if not str(one.key["scope"]).startswith(private_scope(""))]


def find(tx: StoreTransaction, name: str) -> str | None:
    """The uid of a session, by its id or a unique prefix, even if other columns of its row are damaged."""
    rows = readable(tx, "session.get_by_id", id=name)
    rows = rows or readable(tx, "session.get_by_prefix", prefix=name, beyond=name + "\U0010ffff", limit=2)
    return rows[0][0] if len(rows) == 1 and isinstance(rows[0][0], str) else None


def of_session(tx: StoreTransaction, uid: str) -> list[DamagedRow]:
    """All damaged rows of a session: its row, its log and the rows of every table."""
    from perdure.store.moves import event

    row = readable(tx, "session.get", uid=uid)[0]
    name = _text(row[1])
    found = list(filter(None, [_damaged("session", row)]))
    row_is_whole = not found
    after = 0
    while page := readable(tx, "event.after", uid=uid, after=after, limit=PAGE):
        found += filter(None, (_damaged("event", row, name) for row in page))
        after = page[-1][1]
    if row_is_whole and not found:
        try:
            event.verify(tx, uid)
        except Damaged as error:
            found.append(DamagedRow(name, "event", {}, error.message.rstrip(".")))
    for table in TABLES:
        rows = readable(tx, f"transfer.read_{table}", uid=uid, scope=private_scope(uid), limit=2**31)
        found += filter(None, (_damaged(table, row, name) for row in rows))
    return found or _contradictions(tx, uid, name)


def _contradictions(tx: StoreTransaction, uid: str, name: str) -> list[DamagedRow]:
    """Readable rows that contradict the log."""
    from perdure.store.moves import event

    row = tx.one("session.get", uid=uid)
    assert row is not None
    try:
        found = list(contradictions(_decoded("session", row), _Tables(tx, uid), LogView(event.all_events(tx, uid))))
    except Damaged as error:
        return [DamagedRow(name, "event", {}, error.message.rstrip("."))]
    return [DamagedRow(name, one.table, one.key, one.what) for one in found]


class _Tables(dict[str, Iterator[Columns]]):
    """The rows of a session's tables, each table read on first use."""

    def __init__(self, tx: StoreTransaction, uid: str) -> None:
        self._tx, self._uid = tx, uid

    def __missing__(self, table: str) -> Iterator[Columns]:
        scope = private_scope(self._uid)
        rows = self._tx.all(f"transfer.read_{table}", uid=self._uid, scope=scope, limit=2**31)
        return (_decoded(table, row) for row in rows)


def _decoded(table: str, row: Row) -> Columns:
    return RECORDS[table].from_row(row).to_dict()


def _text(value: Any) -> Any:
    """A value that can be printed; bytes are decoded as far as they are text."""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
