"""Always, for this session: a person's word that an agent need not ask for a tool any more.

It is a fact in a scope of its own, with who said so, when and why. The agent's own tools write facts too, but never in
this scope: a model cannot allow itself anything. It lifts only what the agent's own policy asks for; a gate of the tool
and the runtime's policy ask all the same. A branch is another session, and asks again.
"""

from __future__ import annotations

from perdure.domain.fact import Fact
from perdure.errors import ConfigError
from perdure.store.move import Move, Transaction
from perdure.store.moves import fact


def scope_of(uid: str) -> str:
    return f"allowed:{uid}"


def allow(uid: str, by: str, tool: str, *, because: str) -> Move[Fact]:
    """Say that a tool needs no yes in this session any more, and why."""
    if not because.strip():
        raise ConfigError("What is always allowed needs a reason.")
    return fact.remember(uid, by, scope_of(uid), tool, {"because": because})


def allowed(tx: Transaction, uid: str) -> dict[str, Fact]:
    """The tools that need no yes in this session, with who said so."""
    return {one.key: one for one in fact.known(tx, scope_of(uid))}
