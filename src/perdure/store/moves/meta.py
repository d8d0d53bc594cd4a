"""Properties of the store itself: its identity, its schema, its restore epoch."""

from __future__ import annotations

from perdure.ids import check_name, check_text
from perdure.store.move import StoreTransaction, plain_move


@plain_move
def put(tx: StoreTransaction, key: str, value: str) -> None:
    tx.run("meta.put", key=check_name("The property", key), value=check_text("The property", value))


def get(tx: StoreTransaction, key: str) -> str | None:
    row = tx.one("meta.get", key=key)
    return row[0] if row else None


def properties(tx: StoreTransaction) -> dict[str, str]:
    return dict(tx.all("meta.all", limit=1000))


def session_user(tx: StoreTransaction) -> str:
    """The role that is logged in to PostgreSQL; a `set role` does not change it."""
    row = tx.one("meta.session_user")
    return str(row[0]) if row else ""
