"""Permissions of an agent: its own policy, and what a person allows it in a session.

A person has decided that an agent may use a tool there without asking again.

A permission is a fact in a scope of its own, with who granted it, when and why. The agent's tools write facts too, but
never in this scope: a model cannot give itself a permission. It replaces only the question of the agent's own policy; a
gate of the tool and the runtime's policy still ask. A branch is another session, and asks again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.domain.fact import Fact
from perdure.errors import ConfigError
from perdure.runtime.definitions.tool import Gate, Tool
from perdure.runtime.ledger.policy import Intent, Policy, Ruling
from perdure.runtime.run.run import Run
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import fact

ASKED = frozenset({"run_command", "git_push"})
GATE = Gate("agent", expires=None, requester_may_decide=True)  # the model asks, and the person it works for decides


def ask_first(intent: Intent) -> str:
    """The default policy of an agent: an effect that leaves the folder, or may leave it, needs approval."""
    return "ask" if intent.tool in ASKED else "allow"


class AgentPolicy:
    """The stricter of the runtime's policy and the agent's own. What a person always allows needs no question."""

    def __init__(self, run: Run, rule: Callable[[Intent], str] | None) -> None:
        self._run = run
        self._own = None if rule is None else Policy(rule, run.clock, GATE)
        self._allowed: dict[str, Fact] = {}  # the tools that a person always allows in this session

    async def refresh(self) -> None:
        """Read the permissions again: a person may have allowed a tool since."""
        if self._own is not None:
            self._allowed = await self._run.read(allowed, self._run.session.uid)

    def rule(self, tool: Tool[..., Any], arguments: dict[str, Any], origins: tuple[str, ...]) -> Ruling:
        ruling = self._answer(self._run.runtime.policy, tool, arguments, origins)
        if self._own is None or ruling.answer == "deny":
            return ruling
        own = self._answer(self._own, tool, arguments, origins)
        if own.answer == "ask" and tool.gate is None and (granted := self._allowed.get(tool.name)) is not None:
            own = Ruling("allow", f"{granted.updated_by} always allows {tool.name} in this session.")
        return own if own.answer == "deny" or ruling.answer == "allow" else ruling

    def _answer(
        self, policy: Policy, tool: Tool[..., Any], arguments: dict[str, Any], origins: tuple[str, ...]
    ) -> Ruling:
        """The answer of a policy. A policy that fails cannot allow anything, so a person is asked."""
        try:
            return policy.rule(tool, self._run.session, arguments, origins)
        except Exception:
            careful = Policy(lambda _: "ask", self._run.clock, GATE)
            return careful.rule(tool, self._run.session, arguments, origins)


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
