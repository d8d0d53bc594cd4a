"""Checks of stored rows: a damaged row is reported, and the others are still returned.

A row is damaged when a text in it is not UTF-8, when JSON in it is incomplete, or when a value has the wrong type or is
not allowed in its column. Code that reads many sessions uses `readable` or `records`.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Any, get_type_hints

import msgspec

from perdure.domain.approval import ApprovalDecision
from perdure.domain.artifact import Retention
from perdure.domain.effect import AttemptOutcome, EffectState, Replay, Verdict
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
        if (bad := damaged_row(table, row)) is None:
            found.append(RECORDS[table].from_row(row))
        elif bad not in damaged:
            damaged.append(bad)
    return found


def damaged_row(table: str, row: Row, session: str | None = None) -> DamagedRow | None:
    """The description of a damaged row; None if it is sound. `session` is the id of its session where that is known."""
    columns = dict(zip(RECORDS[table].columns(), row, strict=True))
    if (what := wrong(table, columns)) is None:
        return None
    whose = session or printable(columns.get("id") if table == "session" else columns.get("session_uid"))
    return DamagedRow(
        whose, table, {name: printable(columns[name]) for name in KEYS[table] if name != "session_uid"}, what
    )


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


def printable(value: Any) -> Any:
    """A value that can be printed; bytes are decoded as far as they are text."""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
