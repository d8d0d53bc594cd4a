"""The text form of a `files:` store: one line of JSON for each move, with every row that it changed.

`n` numbers the lines through all files. A row is `["insert", table, row]`, `["update", table, key, changed]` or
`["delete", table, key]`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from perdure.errors import Damaged
from perdure.ids import decode, encode

Change = list[Any]  # ["insert", table, row] | ["update", table, key, changed] | ["delete", table, key]


class JournalLine(msgspec.Struct):
    """One move as it is written down."""

    n: int
    at: int
    move: str
    rows: list[Change]


def statement(
    operation: str, table: str, row: dict[str, Any], changed: dict[str, Any] | None = None
) -> tuple[str, list[Any]]:
    """The one place that makes SQL out of names; they are checked, and come from our own log."""
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
    """Stored JSON as JSON and not as a quoted string, so that people can read it, if it comes back the same."""
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
    """The whole lines of a file, where they end, and the file's size."""
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
