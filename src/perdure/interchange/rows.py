"""The rows of a bundle: written one JSON object to a line, and checked one by one when they are read.

A row has the columns of its table as stored, so JSON is text inside JSON: hashed text is kept byte for byte. Reading is
strict about known columns and ignores others; a column that may be null or has a default may be missing. Nothing in a
row is ever resolved, called or executed.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from typing import Any

import msgspec

from perdure.errors import BundleInvalid
from perdure.store.row_check import KEYS, Columns, check, nullable
from perdure.store.statements import RECORDS
from perdure.store.transfer.session_export import TABLES

assert KEYS.keys() == TABLES.keys() | {"session", "event"}


def write(rows: Iterable[Columns]) -> bytes:
    """Rows as lines of JSON."""
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def in_order(table: str, rows: Iterable[Columns]) -> list[Columns]:
    """Sorted by key: the same rows give the same bytes, whichever database they come from."""
    return sorted(rows, key=lambda row: tuple(row[name] for name in KEYS[table]))


def read(table: str, content: bytes) -> list[Columns]:
    """The rows of a file, checked; an error names the line."""
    if content and not content.endswith(b"\n"):
        raise BundleInvalid(f"The rows of {table} end in the middle of a line.")
    found: list[Columns] = []
    seen: set[tuple[Any, ...]] = set()
    for number, line in enumerate(BytesIO(content), 1):  # one at a time: it may consist of line ends only
        try:
            row = _row(table, msgspec.json.decode(line, type=dict[str, Any]))
        except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
            raise BundleInvalid(f"Line {number} of {table} is not a row of it: {error}.") from None
        key = tuple(row[name] for name in KEYS[table])
        if key in seen:
            raise BundleInvalid(f"Line {number} of {table} repeats another line.")
        seen.add(key)
        found.append(row)
    return found


def _row(table: str, given: Columns) -> Columns:
    known = dict.fromkeys(nullable(RECORDS[table])) | _defaults(table)
    row = {
        name: given.get(name, known.get(name)) for name in RECORDS[table].columns() if name in known or name in given
    }
    check(table, row)
    return row


def _defaults(table: str) -> Columns:
    """The columns that were added later, with the value that older rows have."""
    fields = msgspec.structs.fields(RECORDS[table])
    return {one.name: one.default for one in fields if one.default is not msgspec.NODEFAULT}
