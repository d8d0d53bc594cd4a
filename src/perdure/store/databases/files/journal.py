"""The text form of a `files:` store: one line of JSON for each move, with every row that it changed.

`n` numbers the lines across all files. A row is `["insert", table, row]`, `["update", table, key, changed]` or
`["delete", table, key]`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from perdure.errors import Damaged
from perdure.ids import decode, encode

Change = list[Any]  # ["insert", table, row] | ["update", table, key, changed] | ["delete", table, key]


class JournalLine(msgspec.Struct):
    """One move as it is logged."""

    n: int
    at: int
    move: str
    rows: list[Change]


def file_name(id: str, uid: str) -> str:
    """The name of a session's file: its id where that is short enough, else its uid."""
    name = quote(id, safe="@+ ")
    return (name if len(name) <= 120 else uid) + ".jsonl"


def statement(
    operation: str, table: str, row: dict[str, Any], changed: dict[str, Any] | None = None
) -> tuple[str, list[Any]]:
    """A change as an SQL statement. Only here SQL is built from names; they are checked, and come from our log."""
    for name in (table, *row, *(changed or ())):
        if not name.isidentifier():
            raise Damaged(f"{name[:40]!r} is not the name of a column or table.")
    match = " and ".join(f"{name} = ?" for name in row)
    values, news = (
        [as_stored(value) for value in row.values()],
        [as_stored(value) for value in (changed or {}).values()],
    )
    if operation == "insert":
        places = ", ".join("?" * len(row))
        return f"insert into {table} ({', '.join(row)}) values ({places})", values
    if operation == "delete":
        return f"delete from {table} where {match}", values
    assert changed is not None
    assignments = ", ".join(f"{name} = ?" for name in changed)
    return f"update {table} set {assignments} where {match}", [*news, *values]


def readable(value: Any) -> Any:
    """Stored JSON as a JSON value instead of a quoted string, for readable files, if it encodes to the same text."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            opened = decode(value)
        except msgspec.MsgspecError:
            return value
        return opened if encode(opened) == value else value
    return value


def as_stored(value: Any) -> Any:
    return encode(value) if isinstance(value, (dict, list)) else value


def read_lines(path: Path) -> tuple[list[JournalLine], int, int]:
    """The complete lines of a file, where they end, and the file's size."""
    content = path.read_bytes() if path.exists() else b""
    lines, end = [], 0
    decoder = msgspec.json.Decoder(JournalLine)
    while (stop := content.find(b"\n", end)) >= 0:
        try:
            lines.append(decoder.decode(content[end:stop]))
        except msgspec.MsgspecError as error:
            if stop + 1 == len(content):
                break
            raise Damaged(f"Line {len(lines) + 1} of {path.name} cannot be read: {error}.") from None
        end = stop + 1
    return lines, end, len(content)
