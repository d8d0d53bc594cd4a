"""Rows of a SQLite file with raw bytes, for a store in which a text is not UTF-8.

The driver refuses a row with such a text. Here every text is read as bytes and decoded afterwards, so that the other
columns of the row, including its key, are available. The SQL is built from the columns of the query that failed.
"""

from __future__ import annotations

from typing import Any

import apsw

from perdure.errors import Damaged
from perdure.store.move import Row


def rows(db: apsw.Connection, sql: str, values: dict[str, Any]) -> list[Row]:
    """All rows of a query; a text that is not UTF-8 is returned as bytes."""
    names = [column[0] for column in db.execute(sql, values).get_description()]
    columns = (f"case typeof({one}) when 'text' then cast({one} as blob) else {one} end" for one in names)
    found = db.execute(f"select {', '.join(columns)} from ({sql})", values).fetchall()
    return [tuple(_decoded(value) for value in row) for row in found]


def _decoded(value: Any) -> Any:
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


def not_text(name: str) -> Damaged:
    return Damaged(
        f"A row of table {name.partition('.')[0]} holds a text that is not UTF-8.",
        hint="`perdure doctor --deep` names the session and the row. Other sessions are not affected.",
    )
