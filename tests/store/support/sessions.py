"""Sessions and holders to test with, and direct access to the tables."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from perdure.clock import SECOND
from perdure.domain.lease import Holder
from perdure.domain.session import SessionRecord
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import lease, session
from perdure.store.moves.session import NewSession
from perdure.store.store import Store

TTL = 60 * SECOND
TABLES = (
    *("session", "event", "wait", "inbox", "step", "task", "decision", "fact"),
    *("lease", "checkpoint", "artifact", "worker", "meta", "queue", "schedule", "rate_limit"),
    *("effect", "attempt", "approval", "vote", "restore", "effect_target", "model_usage", "access", "feed", "feed_end"),
    *("notification", "notification_channel", "search_entry", "search_position"),
)

# A schedule of every ten minutes.
DEFINITION: dict[str, Any] = {
    "cron": None, "every": 600_000_000, "timezone": "UTC", "jitter": 0, "overlap": "queue", "catch_up": "last",
    "program": "p", "arguments": {}, "options": {},
}  # fmt: skip

_numbers = count(1)


def a_session(store: Store, id: str | None = None, **columns: Any) -> SessionRecord:
    """A session that is ready."""
    given = {"program": "review", "arguments": {"pr": 7}} | columns
    return store.write_now(session.create(NewSession(id=id or f"s-{next(_numbers)}", **given), by="ada"))


def a_holder(store: Store, uid: str | None = None, *, by: str = "worker-1", ttl: int = TTL) -> Holder:
    """A holder of a session's lease; the session runs."""
    uid = uid or a_session(store).uid
    return store.write_now(lease.acquire(uid, by, nonce=f"nonce-{next(_numbers)}", ttl=ttl))


def session_of(store: Store, uid: str) -> SessionRecord:
    return store.read_now(session.get, uid)


def raw(store: Store, *statements: str) -> None:
    """Run SQL of a test in one move, without the checks of the store."""

    def run(tx: StoreTransaction) -> None:
        for statement in statements:
            run_raw(tx, statement)

    store.write_now(Move("raw", "plain", run))


def run_raw(tx: StoreTransaction, statement: str) -> None:
    """Run SQL of a test inside a move."""
    tx.wrote = True
    connection_of(tx).execute(statement)


def rows(store: Store, table: str) -> list[tuple[Any, ...]]:
    """A whole table, as stored."""

    def query(tx: StoreTransaction) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, connection_of(tx).execute(f"select * from {table}").fetchall()), key=repr)

    return store.read_now(query)


def everything(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, without the mark of a barrier."""
    tables = {table: rows(store, table) for table in TABLES}
    tables["meta"] = [row for row in tables["meta"] if row[0] != "barrier"]
    return tables


def connection_of(tx: StoreTransaction) -> Any:
    return tx._db  # type: ignore[attr-defined]


def plain(run: Callable[[StoreTransaction], Any]) -> Move[Any]:
    """A move of a test."""
    return Move("test", "plain", run)
