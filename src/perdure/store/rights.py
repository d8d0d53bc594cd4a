"""Rights in the database: which role may do what with each table of the store. They are real on PostgreSQL only.

The roles separate duties, whatever code connects with them:

    worker      runs sessions: it records what they do, and can neither vote nor change policy, principals or exemptions
    service     serves people: it votes for them, and changes policy, principals, exemptions, queues and schedules
    approver    reads what people need for a decision; votes are cast through the service
    auditor     reads everything, and writes nothing
    owner       owns the tables: the only role that changes the schema

A right is written as in a GRANT, with columns where a role may write only some. Every table is listed here; a table
that is missing is one that no role but the owner can use, and a test fails.
"""

from __future__ import annotations

import re

ROLES = ("worker", "service", "approver", "auditor", "owner")
WRITERS = ("worker", "service")

READ = "select"
ADD = "select, insert"
CHANGE = "select, insert, update"
ALL = "select, insert, update, delete"
REQUEST = (
    "session_uid, id, effect_id, gate, intent_digest, requester, requester_may_decide, quorum, expires_at, asked_at, "
    "conditions, requested_by, escalate_at"
)

TABLES: dict[
    str, dict[str, str]
] = {  # for each table, what a worker and the service may do, and whether approvers read
    "meta": {"worker": "select, insert, update (value)", "service": "select, insert, update (value)", "approver": READ},
    "event_kind": {"worker": READ, "service": READ, "approver": READ},
    "wait_kind": {"worker": READ, "service": READ, "approver": READ},
    "session": {"worker": CHANGE, "service": CHANGE, "approver": READ},
    "event": {"worker": ADD, "service": "select, insert, update (body, salt)", "approver": READ},
    "wait": {"worker": CHANGE, "service": ALL, "approver": READ},
    "inbox": {"worker": CHANGE, "service": ALL, "approver": READ},
    "step": {"worker": ADD, "service": "select, insert, delete", "approver": READ},
    "task": {"worker": CHANGE, "service": ALL, "approver": READ},
    "decision": {"worker": CHANGE, "service": ALL, "approver": READ},
    "fact": {"worker": ALL, "service": ALL, "approver": READ},
    "lease": {"worker": CHANGE, "service": CHANGE, "approver": READ},
    "checkpoint": {"worker": ALL, "service": ALL, "approver": READ},
    "artifact": {"worker": CHANGE, "service": ALL, "approver": READ},
    "worker": {"worker": ALL, "service": ALL, "approver": READ},
    "writer": {"worker": ALL, "service": ALL, "approver": READ},
    "restore": {"worker": CHANGE, "service": CHANGE, "approver": READ},
    "restore_exempt": {"worker": ADD, "service": ADD},
    "effect": {"worker": CHANGE, "service": ALL, "approver": READ},
    "attempt": {"worker": CHANGE, "service": ALL, "approver": READ},
    "approval": {
        "worker": f"select, insert ({REQUEST}), update (decision, decided_at, consumed_by, escalated_at)",
        "service": ALL,
        "approver": READ,
    },
    "vote": {"worker": READ, "service": "select, insert, delete", "approver": READ},
    "principal": {"worker": READ, "service": CHANGE, "approver": READ},
    "principal_login": {"worker": READ, "service": CHANGE, "approver": READ},
    "token": {"service": ALL},
    "request": {"service": ALL},
    "sign_in": {"service": "select, insert, delete"},
    "notification_channel": {"worker": CHANGE, "service": ALL, "approver": READ},
    "notification": {"worker": ALL, "service": ALL, "approver": READ},
    "queue": {
        "worker": "select, insert (name, version, updated_by, updated_at), update (rate_at)",
        "service": CHANGE,
        "approver": READ,
    },
    "schedule": {"worker": "select, update (last_tick, next_due, outcomes)", "service": CHANGE, "approver": READ},
    "rate_limit": {"worker": ALL, "service": ALL},
    "control_event": {"worker": READ, "service": ADD, "approver": READ},
    "policy": {"worker": READ, "service": ADD, "approver": READ},
    "policy_fence": {"worker": READ, "service": "select, update", "approver": READ},
    "effect_target": {"worker": ADD, "service": "select, insert, delete", "approver": READ},
    "model_usage": {"worker": CHANGE, "service": ALL, "approver": READ},
    "access": {"worker": ADD, "service": ALL},
    "exemption": {"worker": "select, update (used)", "service": CHANGE, "approver": READ},
    "exemption_use": {"worker": ADD, "service": ADD, "approver": READ},
    "search_entry": {"worker": ALL, "service": ALL, "approver": READ},
    "search_words": {"worker": ALL, "service": ALL, "approver": READ},
    "search_position": {"worker": CHANGE, "service": CHANGE, "approver": READ},
    "feed": {"worker": READ, "service": ADD},
    "feed_end": {"worker": READ, "service": "select, update"},
}

_VERB = re.compile(r"(select|insert|update|delete)(?: \(([a-z_, ]+)\))?")


def granted(table: str, role: str) -> dict[str, tuple[str, ...]]:
    """The verbs that a role may use on a table, each with its columns; without columns: all of them."""
    text = READ if role == "auditor" else TABLES[table].get(role, "")
    return {verb: tuple(columns.split(", ")) if columns else () for verb, columns in _VERB.findall(text)}


def grant_text(table: str, role: str) -> str:
    """The same, as a GRANT names it; empty: nothing."""
    return READ if role == "auditor" else TABLES[table].get(role, "")
