"""Damage: what is in a store and cannot be true. It is looked for and named here, and never repaired."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.errors import Damaged
from perdure.store import event
from perdure.store.databases.engine import SQLiteTransaction
from perdure.store.move import Transaction


def damage(tx: Transaction) -> list[str]:
    """Read everything and return what does not fit: SQLite's own structure, and every session's chain."""
    found = []
    if isinstance(tx, SQLiteTransaction):
        found += [row[0] for row in tx.all("doctor.damage") if row[0] != "ok"]
    for uid in session_uids(tx):
        try:
            event.verify(tx, uid)
        except Damaged as error:
            found.append(error.message)
    return found


def session_uids(tx: Transaction) -> Iterator[str]:
    """Every session there is, a page at a time."""
    after = ""
    while page := [row[0] for row in tx.all("doctor.session_uids", after=after, limit=1000)]:
        yield from page
        after = page[-1]
