"""Permissions of a session: a person has decided that an agent may use a tool there without asking again.

A permission is a fact in a scope of its own, with who granted it, when and why. The agent's tools write facts too, but
never in this scope: a model cannot give itself a permission. It replaces only the question of the agent's own policy; a
gate of the tool and the runtime's policy still ask. A branch is another session, and asks again.
"""

from __future__ import annotations

from perdure.domain.fact import Fact
from perdure.errors import ConfigError
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import fact


def scope_of(uid: str) -> str:
    return f"allowed:{uid}"


def allow(uid: str, by: str, tool: str, *, because: str) -> Move[Fact]:
    """Let the agent use a tool in this session without asking, and record why."""
    if not because.strip():
        raise ConfigError("A permission needs a reason.")
    return fact.remember(uid, by, scope_of(uid), tool, {"because": because})


def allowed(tx: StoreTransaction, uid: str) -> dict[str, Fact]:
    """The tools that the agent may use in this session without asking, with who allowed each."""
    return {one.key: one for one in fact.listing(tx, scope_of(uid))}
