"""Damaged rows of a store. They are found and reported here, and never repaired.

A row is damaged when a text in it is not UTF-8, when JSON in it is incomplete, when a value has the wrong type or is
not allowed in its column; a log also when an event is missing, changed or out of order; and any row when it contradicts
the log of its session.
"""

from __future__ import annotations

from collections.abc import Iterator

from perdure.domain.contradiction import LogView, contradictions
from perdure.domain.fact import private_scope
from perdure.errors import Damaged
from perdure.store.databases.sqlite.engine import SQLiteTransaction
from perdure.store.move import Row, StoreTransaction
from perdure.store.moves import event
from perdure.store.row_check import Columns, DamagedRow, damaged_row, printable, readable
from perdure.store.statements import RECORDS

PAGE = 1000
TABLES = ("wait", "inbox", "step", "task", "decision", "fact", "effect", "attempt", "approval", "vote", "artifact")


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
            uid
            if isinstance(uid, str)
            else DamagedRow(None, "session", {"uid": printable(uid)}, "uid is not UTF-8 text")
            for uid in page
        )
        names = [uid for uid in page if isinstance(uid, str)]
        if len(page) < PAGE or not names:
            return
        after = names[-1]


def shared_facts(tx: StoreTransaction) -> list[DamagedRow]:
    """Damaged facts that are shared by sessions."""
    rows = readable(tx, "fact.list", scope=None, limit=2**31)
    found = filter(None, (damaged_row("fact", row) for row in rows))
    return [one for one in found if not str(one.key["scope"]).startswith(private_scope(""))]


def find(tx: StoreTransaction, name: str) -> str | None:
    """The uid of a session, by its id or a unique prefix, even if other columns of its row are damaged."""
    rows = readable(tx, "session.get_by_id", id=name)
    rows = rows or readable(tx, "session.get_by_prefix", prefix=name, beyond=name + "\U0010ffff", limit=2)
    return rows[0][0] if len(rows) == 1 and isinstance(rows[0][0], str) else None


def of_session(tx: StoreTransaction, uid: str) -> list[DamagedRow]:
    """All damaged rows of a session: its row, its log and the rows of every table."""
    row = readable(tx, "session.get", uid=uid)[0]
    name = printable(row[1])
    found = list(filter(None, [damaged_row("session", row)]))
    row_is_whole = not found
    after = 0
    while page := readable(tx, "event.after", uid=uid, after=after, limit=PAGE):
        found += filter(None, (damaged_row("event", row, name) for row in page))
        after = page[-1][1]
    if row_is_whole and not found:
        try:
            event.verify(tx, uid)
        except Damaged as error:
            found.append(DamagedRow(name, "event", {}, error.message.rstrip(".")))
    for table in TABLES:
        rows = readable(tx, f"transfer.read_{table}", uid=uid, scope=private_scope(uid), limit=2**31)
        found += filter(None, (damaged_row(table, row, name) for row in rows))
    return found or _contradictions(tx, uid, name)


def _contradictions(tx: StoreTransaction, uid: str, name: str) -> list[DamagedRow]:
    """Readable rows that contradict the log."""
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
