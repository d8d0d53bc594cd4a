"""Records of a store elsewhere as rows in memory, so that what reads a store can read them.

A mirror has only what was put into it. It is read and thrown away: triggers and foreign keys are off, because it holds
parts of sessions, and nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from perdure.clock import Clock
from perdure.domain.approval import Approval, Vote
from perdure.domain.artifact import Artifact
from perdure.domain.decision import Decision
from perdure.domain.effect import Attempt, Effect
from perdure.domain.event import Event
from perdure.domain.exemption import Exemption, ExemptionUse
from perdure.domain.fact import Fact
from perdure.domain.rate_limit import RateLimit
from perdure.domain.record import Record
from perdure.domain.schedule import Schedule
from perdure.domain.session import SessionRecord
from perdure.domain.task import Task
from perdure.domain.wait import Wait
from perdure.ids import encode
from perdure.store import migrate
from perdure.store.databases.files.journal import statement
from perdure.store.databases.sqlite.database import SQLiteMigrator
from perdure.store.databases.sqlite.engine import SQLiteEngine, connect
from perdure.store.move import StoreTransaction

# The tables that can be mirrored, with the columns that name a row.
TABLES: dict[str, tuple[type[Record], tuple[str, ...]]] = {
    "session": (SessionRecord, ("uid",)),
    "wait": (Wait, ("session_uid", "id")),
    "effect": (Effect, ("session_uid", "id")),
    "attempt": (Attempt, ("session_uid", "effect_id", "number")),
    "approval": (Approval, ("session_uid", "id")),
    "vote": (Vote, ("session_uid", "approval_id", "voter")),
    "event": (Event, ("session_uid", "number")),
    "artifact": (Artifact, ("session_uid", "digest")),
    "task": (Task, ("session_uid", "id")),
    "decision": (Decision, ("session_uid", "id")),
    "fact": (Fact, ("scope", "key")),
    "schedule": (Schedule, ("uid",)),
    "rate_limit": (RateLimit, ("name",)),
    "exemption": (Exemption, ("id",)),
    "exemption_use": (ExemptionUse, ("session_uid", "exemption_id", "effect_id")),
}


class Mirror:
    """Rows in memory."""

    def __init__(self, clock: Clock) -> None:
        self._engine = SQLiteEngine(connect(":memory:"), clock)
        self._others: dict[str, dict[str, object]] = {}
        migrate.migrate(SQLiteMigrator(self._engine, None), migrate.load("sqlite"))
        for setting in (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, apsw.SQLITE_DBCONFIG_ENABLE_FKEY):
            self._engine.db.config(setting, 0)

    def put(self, table: str, records: Iterable[Record]) -> None:
        """Add records, or replace them."""
        kind, key = TABLES[table]
        for one in records:
            row = {name: _stored(kind, name, getattr(one, name)) for name in kind.columns()}
            named = {name: row[name] for name in key}
            self._engine.db.execute(*statement("delete", table, named))
            self._engine.db.execute(*statement("insert", table, row | self._missing(table, row)))

    def _missing(self, table: str, row: dict[str, object]) -> dict[str, object]:
        """Values for columns that records do not have and that must not be null."""
        if table not in self._others:
            described = self._engine.db.execute(f"PRAGMA table_info({table})").fetchall()
            needed = [(str(name), str(kind)) for _, name, kind, not_null, *_ in described if not_null]
            self._others[table] = {name: 0 if "INT" in kind.upper() else "" for name, kind in needed if name not in row}
        return self._others[table]

    def read(self) -> StoreTransaction:
        return self._engine.transaction("look")


def _stored(kind: type[Record], name: str, value: object) -> object:
    return encode(value) if name in kind.json_columns and value is not None else value
