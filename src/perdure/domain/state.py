"""Time travel: a session's state at any event, derived from its log alone.

An event that changed a row carries the columns it changed under `rows`, by table. Folding the events in order gives
back what the rows said at any number; a new kind of event needs no new code here. Leases, workers and checkpoints
are not part of the state: losing them changes nothing about what is true.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

KEYS: dict[str, tuple[str, ...]] = {
    "wait": ("id",),
    "task": ("id",),
    "decision": ("id",),
    "fact": ("scope", "key"),
    "effect": ("id",),
    "approval": ("id",),
}

NOT_STATE = frozenset(
    {
        "chain",
        "crash_count",
        "lease_holder",
        "lease_nonce",
        "lease_epoch",
        "lease_until",
        "lease_alone",
        "suspected_at",
        "turn",
        "slot_since",
        "workspace",
    }
)


class SessionState(msgspec.Struct, frozen=True):
    """What was true of one session after event `number`. Rows are plain mappings of columns."""

    number: int
    session: dict[str, Any]
    waits: dict[str, dict[str, Any]]
    tasks: dict[str, dict[str, Any]]
    decisions: dict[str, dict[str, Any]]
    facts: dict[str, dict[str, Any]]
    effects: dict[str, dict[str, Any]]
    approvals: dict[str, dict[str, Any]]


def fold(events: Iterable[Any]) -> SessionState:
    """Derive the state from events (records with `number`, `at`, `body`), in order from the first."""
    session: dict[str, Any] = {}
    tables: dict[str, dict[str, dict[str, Any]]] = {table: {} for table in KEYS}
    number = 0
    for event in events:
        number = event.number
        rows: dict[str, Any] = (event.body or {}).get("rows", {})
        session |= rows.get("session", {})
        session |= {"cursor": event.number, "updated_at": event.at}
        for table, keys in KEYS.items():
            for row in rows.get(table, ()):
                name = row_name(keys, row)
                if row.get("forgotten"):
                    tables[table].pop(name, None)
                else:
                    tables[table][name] = tables[table].get(name, {}) | row
    return SessionState(number, session, *(tables[table] for table in KEYS))


def row_name(keys: tuple[str, ...], row: dict[str, Any]) -> str:
    """A row's key as one word. No name holds a space, so two rows never share it."""
    return " ".join(str(row[key]) for key in keys)
