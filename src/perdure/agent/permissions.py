"""Permissions of an agent: its own policy, and what a person allows it in a session.

A person has decided that an agent may make a call, or use a tool, there without asking again (`domain.permission`). The
agent's tools write facts too, but never in the scope of permissions: a model cannot give itself one. A gate of the tool
and the runtime's policy still ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.domain.effect import Replay, intent_digest
from perdure.domain.fact import Fact
from perdure.domain.literals import PolicyAnswer
from perdure.domain.permission import call_key, permission_scope
from perdure.runtime.definitions.tool import Gate, Tool
from perdure.runtime.ledger.policy import Intent, Policy, Ruling
from perdure.runtime.run.run import Run
from perdure.store.move import StoreTransaction
from perdure.store.moves import fact

MCP = "mcp."  # tools of MCP servers
ASKED = frozenset({"run_command", "git_push"})
MOST = 10_000  # permissions of one session that are read
GATE = Gate("agent", expires=None, requester_may_decide=True)  # the model asks, and the person it works for decides


def ask_first(intent: Intent) -> PolicyAnswer:
    """The default policy of an agent: an effect that leaves the folder, or may leave it, needs approval."""
    of_server = intent.tool.startswith(MCP) and intent.replay != Replay.PURE
    return "ask" if intent.tool in ASKED or of_server else "allow"


class AgentPolicy:
    """The stricter of the runtime's policy and the agent's own. What a person always allows needs no question."""

    def __init__(self, run: Run, rule: Callable[[Intent], str] | None) -> None:
        self._run = run
        self._own = None if rule is None else Policy(rule, run.clock, GATE, may_remember=True)
        self._allowed: dict[str, Fact] = {}  # the calls and tools that a person allows in this session

    async def refresh(self) -> None:
        """Read the permissions again: a person may have allowed a tool since."""
        if self._own is not None:
            self._allowed = await self._run.read(allowed, self._run.session.uid)

    def rule(self, tool: Tool[..., Any], arguments: dict[str, Any], origins: tuple[str, ...]) -> Ruling:
        ruling = self._answer(self._run.runtime.policy, tool, arguments, origins)
        if self._own is None or ruling.answer == "deny":
            return ruling
        own = self._answer(self._own, tool, arguments, origins)
        if own.answer == "ask" and tool.gate is None and (granted := self._permission(tool, arguments)) is not None:
            own = Ruling("allow", f"{granted.updated_by} allows it in this session.")
        return own if own.answer == "deny" or ruling.answer == "allow" else ruling

    def _permission(self, tool: Tool[..., Any], arguments: dict[str, Any]) -> Fact | None:
        """The permission for this tool, or for exactly this call."""
        if not self._allowed:
            return None
        exact = intent_digest(tool.name, arguments, tool.targets_of(arguments))
        return self._allowed.get(tool.name) or self._allowed.get(call_key(exact))

    def _answer(
        self, policy: Policy, tool: Tool[..., Any], arguments: dict[str, Any], origins: tuple[str, ...]
    ) -> Ruling:
        """The answer of a policy. A policy that fails cannot allow anything, so a person is asked."""
        try:
            return policy.rule(tool, self._run.session, arguments, origins)
        except Exception:
            careful = Policy(lambda _: "ask", self._run.clock, GATE)
            return careful.rule(tool, self._run.session, arguments, origins)


def allowed(tx: StoreTransaction, uid: str) -> dict[str, Fact]:
    """The permissions of a session, by the name of a tool or the key of a call, with who granted each."""
    return {one.key: one for one in fact.listing(tx, permission_scope(uid), limit=MOST)}
