"""The rows of a bundle: written one JSON object to a line, and checked one by one when they are read.

A row has the columns of its table as stored, so JSON is text inside JSON: what is hashed travels byte for byte. Reading
is strict about the columns it knows and leaves out those it does not; a column that may be null may be missing. Nothing
in a row is ever resolved, called or executed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from io import BytesIO
from typing import Any, get_type_hints

import msgspec

from perdure.domain.approval import Decided
from perdure.domain.artifact import Retention
from perdure.domain.effect import AttemptOutcome, EffectState, Replay, Verdict
from perdure.domain.inbox import Mode
from perdure.domain.record import Record
from perdure.domain.session import Status
from perdure.domain.task import TaskState
from perdure.domain.wait import WaitKind
from perdure.errors import BundleInvalid
from perdure.ids import decode
from perdure.store.statements import RECORDS
from perdure.store.transfer import TABLES, Columns

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
assert KEYS.keys() == TABLES.keys() | {"session", "event"}

CHOICES: dict[tuple[str, str], type[StrEnum]] = {
    ("session", "status"): Status,
    ("wait", "kind"): WaitKind,
    ("inbox", "mode"): Mode,
    ("task", "state"): TaskState,
    ("effect", "state"): EffectState,
    ("effect", "replay"): Replay,
    ("effect", "verdict"): Verdict,
    ("attempt", "outcome"): AttemptOutcome,
    ("approval", "decision"): Decided,
    ("vote", "decision"): Decided,
    ("artifact", "retention"): Retention,
}


def write(rows: Iterable[Columns]) -> bytes:
    """Rows as lines of JSON."""
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def in_order(table: str, rows: Iterable[Columns]) -> list[Columns]:
    """By their key: the same rows give the same bytes, whichever database they come from."""
    return sorted(rows, key=lambda row: tuple(row[name] for name in KEYS[table]))


def read(table: str, content: bytes) -> list[Columns]:
    """The rows of a file, checked; what is wrong with one is said with its line."""
    if content and not content.endswith(b"\n"):
        raise BundleInvalid(f"The rows of {table} end in the middle of a line.")
    found: list[Columns] = []
    seen: set[tuple[Any, ...]] = set()
    for number, line in enumerate(BytesIO(content), 1):  # one at a time: it may be nothing but ends of lines
        try:
            row = _row(table, msgspec.json.decode(line, type=dict[str, Any]))
        except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
            raise BundleInvalid(f"Line {number} of {table} is not a row of it: {error}.") from None
        key = tuple(row[name] for name in KEYS[table])
        if key in seen:
            raise BundleInvalid(f"Line {number} of {table} says again what another line says.")
        seen.add(key)
        found.append(row)
    return found


def _row(table: str, given: Columns) -> Columns:
    record, nullable = RECORDS[table], _nullable(RECORDS[table])
    row = {name: given.get(name) for name in record.columns() if name in given or name in nullable}
    msgspec.convert(row, record, strict=True)
    for name, value in row.items():
        if isinstance(value, str) and "\0" in value:
            raise ValueError(f"{name} holds a NUL")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError(f"{name} is too large")
        if value is not None and (table, name) in CHOICES and value not in set(CHOICES[table, name]):
            raise ValueError(f"{name} cannot be {str(value)[:40]!r}")
        if value is not None and name in record.json_columns:
            if not isinstance(value, str):
                raise ValueError(f"{name} is not JSON as text")
            decode(value)
    return row


@cache
def _nullable(record: type[Record]) -> frozenset[str]:
    """Columns that may be null, and so may be missing: JSON may always, here, and the database has the last word."""
    hints = get_type_hints(record)
    return frozenset(
        name
        for name in record.columns()
        if name in record.json_columns or type(None) in getattr(hints[name], "__args__", ())
    )
