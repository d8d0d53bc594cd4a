"""The document of a policy: its rules, its default answer, its budgets, and which reads are logged."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import msgspec

from perdure.domain.literals import PolicyAnswer
from perdure.domain.policy.facts import Facts
from perdure.ids import digest

LOGGED_READS = ("export", "artifact", "transcript", "approval")
STRICTNESS: dict[str, int] = {"allow": 0, "ask": 1, "deny": 2}


class PolicyGate(msgspec.Struct, frozen=True, kw_only=True):
    """Who may decide when a rule asks, and by when. Durations are texts such as "24h".

    Roles and people are alternatives: a voter needs one of the roles or is one of the people. If both are empty, every
    approver may decide. `escalate_after` and `escalate_to` (roles or people) widen the gate later.
    """

    name: str = "policy"
    quorum: int = 1
    expires: str | None = "24h"
    roles: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    requester_may_decide: bool = False
    owner_may_decide: bool = True
    reason: Literal["optional", "required"] = "optional"
    escalate_after: str | None = None
    escalate_to: tuple[str, ...] = ()


class RuleExample(msgspec.Struct, frozen=True, kw_only=True):
    """A call, and how the whole policy must answer it."""

    facts: Facts
    expect: PolicyAnswer
    line: int = 0


class PolicyRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. It matches a call if all of its conditions hold and its exceptions do not all hold."""

    name: str
    answer: PolicyAnswer
    reason: str
    conditions: dict[str, Any] = {}
    exceptions: dict[str, Any] = {}
    gate: PolicyGate | None = None
    examples: tuple[RuleExample, ...] = ()
    line: int = 0


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that all processes share: how much of what, for whom, and what to do when it is reached.

    `of` is `cost` (dollars), `tokens`, `turns`, `time` (a duration, kept in seconds) or `effects` (with `reach`).
    """

    name: str
    of: Literal["cost", "tokens", "turns", "time", "effects"]
    limit: float
    per: Literal["session", "owner", "day", "owner-day"]
    answer: Literal["ask", "stop"] = "ask"
    reason: str = ""
    reach: tuple[str, ...] = ()
    line: int = 0


class PolicyDocument(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A policy that was read from a text and passed its examples.

    `default` answers what no rule matches, for calls of tools. An undo or a model call that no rule names is allowed.
    `default_command` answers the part of a command that no rule matches; if it is None, `default` does.
    `log_access` names the reads that are logged (`LOGGED_READS`), `log_access_keep` for how many seconds this is kept.
    """

    text: str
    default: PolicyAnswer
    default_command: PolicyAnswer | None = None
    rules: tuple[PolicyRule, ...] = ()
    budgets: tuple[Budget, ...] = ()
    log_access: frozenset[str] = frozenset()
    log_access_keep: float | None = None

    @cached_property
    def digest(self) -> str:
        """The digest of the text."""
        return digest(self.text)
